// NumPy arrays over the buffers of a minibatch. Each keeps its buffer, and no other.
#pragma once

#include "bind/bind.hpp"
#include "engine/batch.hpp"

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>

namespace sweephand {

using Extent = py::ssize_t;

inline Extent extent(std::uint64_t size) { return static_cast<Extent>(size); }

// C-contiguous, unless there are strides. None if there is no buffer.
py::object array_over(const Buffer& buffer, const py::dtype& dtype,
                      std::span<const Extent> shape, const Extent* strides = nullptr);

// The dtype of a type, looked up once.
template <class T>
py::dtype dtype_of() {
  static PyObject* const found = py::dtype::of<T>().release().ptr();
  return py::reinterpret_borrow<py::dtype>(found);
}

template <class T>
py::object array_over(const Buffer& buffer, std::initializer_list<Extent> shape) {
  return array_over(buffer, dtype_of<T>(), {shape.begin(), shape.size()});
}

// The values of a stream: its cells, its samples, or the elements of variable ones.
py::object values_array(const StreamBatch& stream, const py::dtype& dtype,
                        std::span<const Extent> sample_shape);

py::object mask_array(const StreamBatch& stream);
py::object sample_offsets_array(const StreamBatch& stream, std::size_t num_sequences);

// Of packed rows.
py::object segment_ids_array(const Batch& batch);
py::object position_ids_array(const Batch& batch);

}  // namespace sweephand
