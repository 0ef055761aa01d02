#include "bind/batch_arrays.hpp"

#include <array>
#include <new>

namespace sweephand {
namespace {

using Npy = py::detail::npy_api;

constexpr std::size_t kMostAxes = 64;  // of NumPy
constexpr int kWritable = int{Npy::NPY_ARRAY_C_CONTIGUOUS_} + int{Npy::NPY_ARRAY_ALIGNED_} +
                          int{Npy::NPY_ARRAY_WRITEABLE_};  // a bit each

// Owns a buffer. A capsule takes twice as long, as it allocates itself and its content.
struct Keeper {
  PyObject head;
  Buffer buffer;
};

PyTypeObject* keeper_type() {
  static PyTypeObject* const type = [] {
    const auto dealloc = +[](PyObject* self) {
      PyTypeObject* const own = Py_TYPE(self);
      reinterpret_cast<Keeper*>(self)->buffer.~Buffer();
      own->tp_free(self);
      Py_DECREF(own);
    };
    std::array<PyType_Slot, 2> slots{
        {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)}, {0, nullptr}}};
    PyType_Spec spec{.name = "sweephand._core.engine.Keeper",
                     .basicsize = sizeof(Keeper),
                     .itemsize = 0,
                     .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                     .slots = slots.data()};
    PyObject* const made = PyType_FromSpec(&spec);
    if (made == nullptr) throw py::error_already_set();
    return reinterpret_cast<PyTypeObject*>(made);
  }();
  return type;
}

PyObject* keeper_of(const Buffer& buffer) {
  PyTypeObject* const type = keeper_type();
  PyObject* const self = type->tp_alloc(type, 0);
  if (self == nullptr) throw py::error_already_set();
  new (&reinterpret_cast<Keeper*>(self)->buffer) Buffer(buffer);
  return self;
}

// The rows of a grid, which may be parts of wider rows.
py::object cells_array(const StreamBatch& stream, const Buffer& buffer, const py::dtype& dtype,
                       std::span<const Extent> shape, std::uint64_t cell_bytes) {
  if (stream.stride == stream.width) return array_over(buffer, dtype, shape);
  std::array<Extent, kMostAxes> strides{};
  Extent stride = dtype.itemsize();
  for (std::size_t axis = shape.size(); axis-- > 0; stride *= shape[axis])
    strides[axis] = stride;
  strides[0] = extent(stream.stride * cell_bytes);
  return array_over(buffer, dtype, shape, strides.data());
}

}  // namespace

// By NumPy's own function, as pybind11's constructor takes twice as long: it keeps shape and
// strides in vectors, and computes those that NumPy finds by itself.
py::object array_over(const Buffer& buffer, const py::dtype& dtype,
                      std::span<const Extent> shape, const Extent* strides) {
  if (!buffer) return py::none();
  auto& numpy = Npy::get();
  auto array = py::reinterpret_steal<py::object>(numpy.PyArray_NewFromDescr_(
      numpy.PyArray_Type_, dtype.inc_ref().ptr(), static_cast<int>(shape.size()), shape.data(),
      strides, buffer.data(), kWritable, nullptr));
  if (!array) throw py::error_already_set();
  if (numpy.PyArray_SetBaseObject_(array.ptr(), keeper_of(buffer)) != 0)
    throw py::error_already_set();
  return array;
}

py::object values_array(const StreamBatch& stream, const py::dtype& dtype,
                        std::span<const Extent> sample_shape) {
  std::array<Extent, kMostAxes> shape{};
  std::size_t axes = 0;
  if (stream.element_offsets) {
    shape[axes++] = extent(stream.num_elements);
    return array_over(stream.values, dtype, {shape.data(), axes});
  }
  if (stream.is_grid()) {
    shape[axes++] = extent(stream.rows);
    shape[axes++] = extent(stream.width);
  } else {
    shape[axes++] = extent(stream.num_samples);
  }
  for (const Extent size : sample_shape) shape.at(axes++) = size;
  return cells_array(stream, stream.values, dtype, {shape.data(), axes}, stream.sample_bytes);
}

py::object mask_array(const StreamBatch& stream) {
  const std::array shape{extent(stream.rows), extent(stream.width)};
  return cells_array(stream, stream.mask, dtype_of<std::uint8_t>(), shape, 1);
}

py::object sample_offsets_array(const StreamBatch& stream, std::size_t num_sequences) {
  return array_over<std::int64_t>(stream.sample_offsets, {extent(num_sequences) + 1});
}

py::object segment_ids_array(const Batch& batch) {
  return array_over<std::int32_t>(batch.marks.segment_ids,
                                  {extent(batch.num_rows), extent(batch.row_length)});
}

py::object position_ids_array(const Batch& batch) {
  return array_over<std::int32_t>(batch.marks.position_ids,
                                  {extent(batch.num_rows), extent(batch.row_length)});
}

}  // namespace sweephand
