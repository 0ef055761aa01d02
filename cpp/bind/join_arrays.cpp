#include "bind/join_arrays.hpp"

#include "read/column_vector.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Proxy = py::detail::PyArray_Proxy;

const Proxy& proxy_of(py::handle array) { return *py::detail::array_proxy(array.ptr()); }

std::span<const Py_intptr_t> shape_of(const Proxy& array) {
  return {array.dimensions, static_cast<std::size_t>(array.nd)};
}

struct CopiedRun {
  const char* data;
  std::size_t bytes;
};

}  // namespace

py::object join_arrays(const py::list& arrays, const py::array& like) {
  if (arrays.empty() || like.ndim() == 0) return py::none();
  const auto* const type =
      reinterpret_cast<const PyTypeObject*>(py::detail::npy_api::get().PyArray_Type_);
  const Proxy& first = proxy_of(like);
  const auto sample_shape = shape_of(first).subspan(1);
  auto sample_bytes = static_cast<std::size_t>(like.itemsize());
  for (const auto extent : sample_shape) sample_bytes *= static_cast<std::size_t>(extent);

  std::vector<CopiedRun> pieces;
  std::vector<std::int64_t> offsets{0};
  pieces.reserve(arrays.size());
  offsets.reserve(arrays.size() + 1);
  int dimensions = -1;
  for (const py::handle item : arrays) {
    if (Py_TYPE(item.ptr()) != type) return py::none();
    const Proxy& array = proxy_of(item);
    const bool is_contiguous =
        py::detail::check_flags(item.ptr(), py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_);
    if (dimensions < 0) dimensions = array.nd;
    if (array.descr != first.descr || !is_contiguous || array.nd != dimensions)
      return py::none();
    auto shape = shape_of(array);
    std::int64_t count = 1;
    if (array.nd == first.nd) {
      count = shape[0];
      shape = shape.subspan(1);
    }
    if (!std::ranges::equal(shape, sample_shape)) return py::none();
    pieces.push_back({array.data, static_cast<std::size_t>(count) * sample_bytes});
    offsets.push_back(offsets.back() + count);
  }
  const std::size_t size = static_cast<std::size_t>(offsets.back()) * sample_bytes;
  auto bytes = take_bytes(size);
  std::uint8_t* const data = bytes.get();
  std::uint8_t* out = data;
  for (const auto& [from, count] : pieces) {
    if (count > 0) std::memcpy(out, from, count);
    out += count;
  }
  return py::make_tuple(
      py::array_t<std::uint8_t>(static_cast<py::ssize_t>(size), data, keep(std::move(bytes))),
      to_numpy(std::move(offsets)));
}

}  // namespace sweephand
