// Minibatches: NumPy arrays over their buffers, pickles, and the properties that Python asks
// for.
#include "engine/batch.hpp"

#include "bind/bind.hpp"
#include "bind/plan.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using ArrayShape = std::vector<py::ssize_t>;

py::ssize_t extent(std::uint64_t size) { return static_cast<py::ssize_t>(size); }

// C-contiguous, unless there are strides. It keeps its buffer, and no other; None if there is
// no buffer.
py::object array_over(const Buffer& buffer, const py::dtype& dtype, ArrayShape shape,
                      ArrayShape strides = {}) {
  if (!buffer) return py::none();
  return py::array(dtype, std::move(shape), std::move(strides), buffer.data(), keep(buffer));
}

template <class T>
py::object array_over(const Buffer& buffer, ArrayShape shape) {
  return array_over(buffer, py::dtype::of<T>(), std::move(shape));
}

// The rows of a grid, which may be parts of wider rows.
py::object cells_array(const StreamBatch& stream, const Buffer& buffer, const py::dtype& dtype,
                       ArrayShape shape, std::uint64_t cell_bytes) {
  ArrayShape strides = py::detail::c_strides(shape, dtype.itemsize());
  strides[0] = extent(stream.stride * cell_bytes);
  return array_over(buffer, dtype, std::move(shape), std::move(strides));
}

// The cells of a stream, its samples, or the elements of variable ones.
py::object values_array(const StreamBatch& stream, const py::dtype& dtype,
                        const ArrayShape& sample_shape) {
  if (stream.element_offsets)
    return array_over(stream.values, dtype, {extent(stream.num_elements)});
  ArrayShape shape{extent(stream.num_samples)};
  if (stream.is_grid()) shape = {extent(stream.rows), extent(stream.width)};
  shape.insert(shape.end(), sample_shape.begin(), sample_shape.end());
  if (stream.is_grid())
    return cells_array(stream, stream.values, dtype, std::move(shape), stream.sample_bytes);
  return array_over(stream.values, dtype, std::move(shape));
}

py::object mask_array(const StreamBatch& stream) {
  return cells_array(stream, stream.mask, py::dtype::of<std::uint8_t>(),
                     {extent(stream.rows), extent(stream.width)}, 1);
}

// Of packed rows.
py::object segments_array(const Batch& batch, const Buffer& segments) {
  return array_over<std::int32_t>(segments, {extent(batch.num_rows), extent(batch.row_length)});
}

}  // namespace
}  // namespace sweephand

namespace pybind11::detail {

// A buffer is pickled as the array of its bytes; when unpickled it keeps that array.
template <>
struct type_caster<sweephand::Buffer> {
  PYBIND11_TYPE_CASTER(sweephand::Buffer, const_name("numpy.ndarray | None"));

  static handle cast(const sweephand::Buffer& buffer, return_value_policy /*policy*/,
                     handle /*parent*/) {
    return sweephand::array_over<std::uint8_t>(buffer, {sweephand::extent(buffer.size())})
        .release();
  }

  bool load(handle source, bool /*convert*/) {
    if (source.is_none()) return true;
    auto array = array_t<std::uint8_t, array::c_style>::ensure(source);
    if (!array) return false;
    if (!array.writeable()) array = array_t<std::uint8_t>(array.size(), array.data());
    auto* data = reinterpret_cast<std::byte*>(array.mutable_data());
    const auto size = static_cast<std::size_t>(array.size());
    value = {data, size, sweephand::hold(std::move(array))};
    return true;
  }
};

// The same for a vector of numbers.
template <class T>
struct BytesCaster {
  PYBIND11_TYPE_CASTER(std::vector<T>, const_name("bytes"));

  static handle cast(const std::vector<T>& values, return_value_policy /*policy*/,
                     handle /*parent*/) {
    const auto* data = reinterpret_cast<const char*>(values.data());
    return bytes(data, values.size() * sizeof(T)).release();
  }

  bool load(handle source, bool /*convert*/) {
    if (!isinstance<bytes>(source)) return false;
    const auto found = source.cast<std::string>();
    value.resize(found.size() / sizeof(T));
    if (!value.empty()) std::memcpy(value.data(), found.data(), value.size() * sizeof(T));
    return true;
  }
};

template <>
struct type_caster<std::vector<sweephand::PlannedSequence>>
    : BytesCaster<sweephand::PlannedSequence> {};
template <>
struct type_caster<std::vector<sweephand::Cell>> : BytesCaster<sweephand::Cell> {};

}  // namespace pybind11::detail

namespace sweephand {
namespace {

// The content of a pickle.
auto fields(StreamBatch& s) {
  return std::tie(s.values, s.mask, s.beyond, s.sample_offsets, s.element_offsets, s.indices,
                  s.sample_bytes, s.num_samples, s.num_elements, s.longest, s.rows, s.width,
                  s.stride);
}
auto fields(Batch& b) {
  Request& asked = b.request;  // except its balance, which belongs to the source
  return std::tie(
      b.nominal_time, b.sweep, b.next.time, b.next.progress, b.begin.time, b.begin.progress,
      asked.num_samples, asked.num_workers, asked.rank, asked.crosses_sweeps, b.num_samples,
      b.num_sequences, b.counted.samples, b.counted.pieces, b.counted.ends, b.counted.labels,
      b.counted.own_labels, b.counted.label_weight, b.sweeps_ended, b.end_of_data, b.share,
      b.banned, b.cells, b.num_rows, b.row_length, b.global_rows, b.options.form,
      b.options.pad_left, b.options.multiple_of, b.options.segments, b.share_samples,
      b.num_cells, b.streams, b.marks.mask, b.marks.segment_ids, b.marks.position_ids);
}

template <class... T>
std::tuple<T...> values_of(const std::tuple<T&...>&);

template <class T>
auto by_fields() {
  return py::pickle(
      [](T& whole) -> py::tuple {
        return py::cast(fields(whole), py::return_value_policy::copy);
      },
      [](const py::tuple& state) {
        T whole;
        fields(whole) = state.cast<decltype(values_of(fields(whole)))>();
        return whole;
      });
}

void bind_stream(py::module_& room) {
  py::class_<StreamBatch>(room, "StreamBatch")
      .def(by_fields<StreamBatch>())
      .def_readonly("num_samples", &StreamBatch::num_samples)
      .def_readonly("num_elements", &StreamBatch::num_elements)
      .def_readonly("longest", &StreamBatch::longest)
      .def_property_readonly("is_grid", &StreamBatch::is_grid)
      .def_readonly("rows", &StreamBatch::rows)
      .def_readonly("width", &StreamBatch::width)
      .def("values", &values_array, "dtype"_a, "sample_shape"_a)
      .def("mask", &mask_array)
      .def("element_offsets",
           [](const StreamBatch& self) {
             return array_over<std::int64_t>(self.element_offsets,
                                             {extent(self.num_samples) + 1});
           })
      .def(
          "beyond",
          [](const StreamBatch& self, const py::dtype& dtype, ArrayShape shape) {
            return array_over(self.beyond, dtype, std::move(shape));
          },
          "dtype"_a, "shape"_a)
      .def("indices", [](const StreamBatch& self) {
        return array_over<std::int32_t>(self.indices, {extent(self.num_elements)});
      });
}

}  // namespace

void bind_batch(py::module_& room) {
  py::enum_<Form>(room, "Form")
      .value("RAGGED", Form::kRagged)
      .value("PADDED", Form::kPadded)
      .value("ROWS", Form::kRows);
  py::class_<AssembleOptions>(room, "AssembleOptions")
      .def(py::init<Form, bool, std::uint32_t, bool>(), "form"_a, "pad_left"_a, "multiple_of"_a,
           "segments"_a)
      .def_readonly("pad_left", &AssembleOptions::pad_left)
      .def_readonly("multiple_of", &AssembleOptions::multiple_of);

  bind_stream(room);
  py::class_<Batch, std::shared_ptr<Batch>> batch(room, "Batch");
  def_plan(batch)
      .def(by_fields<Batch>())
      .def_property_readonly("share_samples", [](const Batch& b) { return b.share_samples; })
      .def_readonly("num_cells", &Batch::num_cells)
      .def_readonly("options", &Batch::options)
      .def("segment_ids", [](const Batch& b) { return segments_array(b, b.marks.segment_ids); })
      .def("position_ids",
           [](const Batch& b) { return segments_array(b, b.marks.position_ids); })
      .def(
          "stream",
          [](const Batch& self, std::size_t stream) -> const StreamBatch& {
            return self.streams.at(stream);
          },
          "stream"_a, py::return_value_policy::reference_internal)
      .def(
          "sample_offsets",
          [](const Batch& self, std::size_t stream) {
            return array_over<std::int64_t>(self.streams.at(stream).sample_offsets,
                                            {extent(self.share.size()) + 1});
          },
          "stream"_a)
      .def("rows_of", &rows_of, "begin"_a, "end"_a)
      .def(
          "with_streams",
          [](const Batch& self, const std::vector<std::size_t>& numbers) {
            return with_streams(self, numbers);
          },
          "numbers"_a);
}

}  // namespace sweephand
