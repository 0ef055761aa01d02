#include "bind/chunk_arrays.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

namespace sweephand {
namespace {

py::dtype to_dtype(const Column& column) {
  static constexpr std::array kNames = {"V",  "?",  "i1", "i2", "i4", "i8", "u1",
                                        "u2", "u4", "u8", "f2", "u2", "f4", "f8"};
  const std::string name = kNames.at(static_cast<std::size_t>(column.type));
  return py::dtype(name == "V" ? name + std::to_string(column.element_bytes) : name);
}

// A read-only array over `size` entries at `data` that keeps the chunk, or None without data.
py::object borrow(const py::dtype& dtype, std::int64_t size, const void* data,
                  const std::shared_ptr<const Chunk>& chunk) {
  if (data == nullptr && size > 0) return py::none();
  py::array array(dtype, {size}, {dtype.itemsize()}, data, keep(chunk));
  array.attr("setflags")("write"_a = false);
  return array;
}

// (values, sample offsets, element offsets or None, indices or None) of one stream.
py::tuple to_arrays(const Column& column, const std::shared_ptr<const Chunk>& chunk) {
  const auto num_sequences = static_cast<std::int64_t>(chunk->num_sequences);
  const std::int64_t num_samples =
      chunk->num_sequences == 0 ? 0 : column.end(chunk->num_sequences - 1);
  const std::int64_t num_elements =
      column.element_offsets != nullptr
          ? column.element_offsets[num_samples]
          : num_samples * static_cast<std::int64_t>(column.sample_elements);
  const auto int64 = py::dtype::of<std::int64_t>();
  return py::make_tuple(
      borrow(to_dtype(column), num_elements, column.values, chunk),
      borrow(int64, num_sequences + 1, column.sample_offsets, chunk),
      borrow(int64, num_samples + 1, column.element_offsets, chunk),
      borrow(py::dtype::of<std::int32_t>(), num_elements, column.indices, chunk));
}

}  // namespace

py::list to_arrays(const std::shared_ptr<const Chunk>& chunk) {
  py::list columns;
  for (const Column& column : chunk->columns) columns.append(to_arrays(column, chunk));
  return columns;
}

}  // namespace sweephand
