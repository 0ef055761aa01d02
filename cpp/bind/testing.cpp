// Functions for tests only.
#include "base/error.hpp"
#include "base/mix.hpp"
#include "bind/bind.hpp"
#include "formats/crc32c.hpp"
#include "run/physical_memory.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <system_error>

namespace sweephand {
namespace {

template <class Error>
void throw_error(const std::string& reason, const Place& place) {
  throw Error(reason, place);
}

void bind_errors(py::module_& room) {
  using MaybeText = std::optional<std::string>;
  using Number = std::optional<std::uint64_t>;
  py::class_<Place>(room, "Place")
      .def(py::init<MaybeText, Number, Number, MaybeText, Number, Number>(), "file"_a,
           "offset"_a, "chunk"_a, "stream"_a, "sequence"_a, "line"_a);
  room.def(
      "describe_data_error",
      [](const std::string& reason, const Place& place) {
        return std::string(DataError(reason, place).what());
      },
      "reason"_a, "place"_a);
  room.def("throw_data_error", &throw_error<DataError>, "reason"_a, "place"_a);
  room.def("throw_stale_error", &throw_error<StaleError>, "reason"_a, "place"_a);
  room.def(
      "throw_system_error",
      [](int code, const std::filesystem::path& file) {
        throw std::filesystem::filesystem_error("open", file, {code, std::generic_category()});
      },
      "code"_a, "file"_a);
}

}  // namespace

void bind_testing(py::module_& room) {
  bind_errors(room);
  room.def("sanitizers", [] { return SWEEPHAND_SANITIZE; });
  room.def("mix64", &mix64, "x"_a);
  room.def("scale", &scale, "random64"_a, "bound"_a);
  room.def("container_memory", &container_memory, "root"_a);
  room.def("checked_add", &checked_add, "a"_a, "b"_a);
  room.def("checked_mul", &checked_mul, "a"_a, "b"_a);
  room.def(
      "crc32c_portable",
      [](const py::buffer& bytes) { return crc32c_portable(to_bytes(bytes.request())); },
      "bytes"_a);
}

}  // namespace sweephand
