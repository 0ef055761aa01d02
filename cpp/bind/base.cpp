// Number types, digests, and errors, which become those of sweephand.errors and OSError.
#include "base/digest.hpp"
#include "base/element.hpp"
#include "base/error.hpp"
#include "base/mix.hpp"
#include "bind/bind.hpp"

#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <tuple>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Text = std::optional<std::string>;

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

// OSError chooses the subclass, such as FileNotFoundError, by the number.
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

using NamedArrays = std::vector<std::tuple<py::bytes, py::bytes, py::bytes, Array<std::uint8_t>,
                                           Array<std::int64_t>, std::uint64_t>>;

std::uint64_t sum_over(const Array<std::uint8_t>& names, const Array<std::int64_t>& offsets,
                       const Array<std::uint64_t>& firsts, const NamedArrays& streams) {
  std::vector<DigestedStream> digested;
  digested.reserve(streams.size());
  for (const auto& [name, before, after, values, in_samples, sample_bytes] : streams) {
    digested.push_back({.name = name,
                        .before = before,
                        .after = after,
                        .values = std::as_bytes(view(values)),
                        .offsets = view(in_samples),
                        .sample_bytes = sample_bytes});
  }
  const DigestedNames all{std::as_bytes(view(names)), view(offsets), view(firsts)};
  return without_gil([&] { return sum_of_digests(all, digested); });
}

}  // namespace

Report report_to(py::function function) {
  return [held = hold(std::move(function))](const DataError& error) {
    const Gil gil;
    call(*held, to_python(error));
  };
}

void bind_base(py::module_& room) {
  py::register_local_exception_translator(&translate);

  py::enum_<ElementType>(room, "ElementType")
      .value("opaque", ElementType::kOpaque)
      .value("bool_", ElementType::kBool)
      .value("int8", ElementType::kInt8)
      .value("int16", ElementType::kInt16)
      .value("int32", ElementType::kInt32)
      .value("int64", ElementType::kInt64)
      .value("uint8", ElementType::kUInt8)
      .value("uint16", ElementType::kUInt16)
      .value("uint32", ElementType::kUInt32)
      .value("uint64", ElementType::kUInt64)
      .value("float16", ElementType::kFloat16)
      .value("bfloat16", ElementType::kBFloat16)
      .value("float32", ElementType::kFloat32)
      .value("float64", ElementType::kFloat64);

  room.def(
      "derive_key", [](const std::vector<std::uint64_t>& words) { return derive_key(words); },
      "words"_a);
  room.def(
      "name_digest",
      [](const py::bytes& name) {
        const std::string_view text = name;
        return name_digest({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
      },
      "name"_a);
  room.def("name_digests", as_array(&name_digests), "bytes"_a, "offsets"_a);
  room.def("numbered_digests", as_array(&numbered_digests), "prefix"_a, "count"_a);
  room.def("sum_of_digests", &sum_over, "names"_a, "offsets"_a, "firsts"_a, "streams"_a);
  room.def("digest_words", as_array(&digest_words), "digests"_a, "seed"_a);
  py::class_<Digest>(room, "Digest")
      .def(py::init<>())
      .def(
          "update",
          [](Digest& self, const py::buffer& bytes) { self.update(to_bytes(bytes.request())); },
          "bytes"_a)
      .def("hex", &Digest::hex);
}

}  // namespace sweephand
