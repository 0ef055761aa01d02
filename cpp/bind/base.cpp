// Errors become those of sweephand.errors and OSError; mixing and digests are there for the
// tests.
#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/mix.hpp"
#include "bind/bind.hpp"

#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Text = std::optional<std::string>;
using Number = std::optional<std::uint64_t>;

// Text that may hold any bytes of a file or its name, decoded as os.fsdecode does.
py::object decode(const Text& text) {
  if (!text) return py::none();
  const auto size = static_cast<py::ssize_t>(text->size());
  auto decoded =
      py::reinterpret_steal<py::object>(PyUnicode_DecodeFSDefaultAndSize(text->data(), size));
  if (!decoded) throw py::error_already_set();
  return decoded;
}

py::object to_python(const DataError& error) {
  const py::object type = py::module_::import("sweephand.errors")
                              .attr(error.is_stale() ? "StaleError" : "DataError");
  const Place& at = error.place();
  return type(decode(error.reason()), decode(at.file), at.offset, at.chunk, decode(at.stream),
              at.sequence, at.line);
}

void raise(const DataError& error) {
  const py::object instance = to_python(error);
  PyErr_SetObject(py::type::of(instance).ptr(), instance.ptr());
}

// OSError picks the subclass, such as FileNotFoundError, by the number.
void raise(const std::system_error& error) {
  const auto* const named = dynamic_cast<const std::filesystem::filesystem_error*>(&error);
  const py::object file = named != nullptr ? decode(named->path1().string()) : py::none();
  const std::string reason = named != nullptr ? error.code().message() : error.what();
  const py::object type = py::module_::import("builtins").attr("OSError");
  const py::object instance = type(error.code().value(), reason, file);
  PyErr_SetObject(py::type::of(instance).ptr(), instance.ptr());
}

void raise(const Interruption& interruption) {
  try {
    interruption.rethrow();
  } catch (py::error_already_set& error) {
    error.restore();
  }
}

// NOLINTNEXTLINE(performance-unnecessary-value-param): the signature is pybind11's
void translate(std::exception_ptr pointer) {
  try {
    if (pointer) std::rethrow_exception(pointer);
  } catch (const DataError& error) {
    raise(error);
  } catch (const std::system_error& error) {
    raise(error);
  } catch (const Interruption& interruption) {
    raise(interruption);
  }
}

}  // namespace

Report report_to(py::function function) {
  return [held = hold(std::move(function))](const DataError& error) {
    const py::gil_scoped_acquire gil;
    call(*held, to_python(error));
  };
}

void bind_base(py::module_& module) {
  py::register_local_exception_translator(&translate);

  module.def("sanitizers", [] { return SWEEPHAND_SANITIZE; });
  module.def("mix64", &mix64, "x"_a);
  module.def(
      "derive_key", [](const std::vector<std::uint64_t>& words) { return derive_key(words); },
      "words"_a);
  module.def("scale", &scale, "random64"_a, "bound"_a);
  module.def("checked_add", &checked_add, "a"_a, "b"_a);
  module.def("checked_mul", &checked_mul, "a"_a, "b"_a);

  py::class_<Digest>(module, "Digest")
      .def(py::init<>())
      .def(
          "update",
          [](Digest& self, const py::buffer& bytes) { self.update(to_bytes(bytes.request())); },
          "bytes"_a)
      .def("hex", &Digest::hex);

  py::class_<Place>(module, "Place")
      .def(py::init<Text, Number, Number, Text, Number, Number>(), "file"_a, "offset"_a,
           "chunk"_a, "stream"_a, "sequence"_a, "line"_a);
  module.def(
      "describe_data_error",
      [](const std::string& reason, const Place& place) {
        return std::string(DataError(reason, place).what());
      },
      "reason"_a, "place"_a);
  module.def(
      "throw_data_error",
      [](const std::string& reason, const Place& place) { throw DataError(reason, place); },
      "reason"_a, "place"_a);
  module.def(
      "throw_stale_error",
      [](const std::string& reason, const Place& place) { throw StaleError(reason, place); },
      "reason"_a, "place"_a);
  module.def(
      "throw_system_error",
      [](int code, const std::filesystem::path& file) {
        throw std::filesystem::filesystem_error("open", file, {code, std::generic_category()});
      },
      "code"_a, "file"_a);
}

}  // namespace sweephand
