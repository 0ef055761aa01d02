#include "bind/sample_columns.hpp"

#include "read/column.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace sweephand {
namespace {

std::span<const Py_intptr_t> shape_of(const py::detail::PyArray_Proxy& array) {
  return {array.dimensions, static_cast<std::size_t>(array.nd)};
}

bool is_list(PyObject* object) {
  return PyList_CheckExact(object) != 0 || PyTuple_CheckExact(object) != 0;
}

std::span<PyObject* const> items_of(PyObject* list) {
  return {PySequence_Fast_ITEMS(list),
          static_cast<std::size_t>(PySequence_Fast_GET_SIZE(list))};
}

// The result of a C call; if it is null, the error is cleared.
py::object unless_error(PyObject* found) {
  if (found == nullptr) PyErr_Clear();
  return py::reinterpret_steal<py::object>(found);
}

// A sample of texts; null if it is something else.
py::object encoded(PyObject* text) {
  if (PyBytes_CheckExact(text) != 0) return py::reinterpret_borrow<py::object>(text);
  if (PyBytes_Check(text) != 0)  // NumPy's
    return unless_error(
        PyBytes_FromStringAndSize(PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text)));
  if (PyUnicode_CheckExact(text) == 0) return {};
  return unless_error(PyUnicode_AsUTF8String(text));
}

template <class T>
void store(T value, std::uint8_t* out) {
  std::memcpy(out, &value, sizeof(T));
}

}  // namespace

NumberColumn::NumberColumn(const py::array& like, std::size_t num_samples)
    : dtype_(like.dtype()),
      scalar_type_(dtype_.attr("type")),
      sample_shape_(like.shape() + 1, like.shape() + like.ndim()),
      element_bytes_(static_cast<std::size_t>(like.itemsize())),
      sample_bytes_(std::accumulate(
          sample_shape_.begin(), sample_shape_.end(), element_bytes_,
          [](std::size_t bytes, auto size) { return bytes * static_cast<std::size_t>(size); })),
      bytes_(take_bytes(num_samples * sample_bytes_)),
      capacity_(num_samples * sample_bytes_) {}

bool NumberColumn::append(PyObject* value) {
  if (is_array(value)) return append_array(value);
  if (is_list(value)) return append_list(items_of(value));
  if (!sample_shape_.empty() || !write(value, reserve(1))) return false;
  lay(1);
  return true;
}

void NumberColumn::drop_last() { offsets_.pop_back(); }

py::object NumberColumn::take() {
  const auto size = static_cast<std::size_t>(offsets_.back()) * sample_bytes_;
  std::uint8_t* const data = bytes_.get();
  capacity_ = 0;
  return py::make_tuple(
      py::array_t<std::uint8_t>(static_cast<py::ssize_t>(size), data, keep(std::move(bytes_))),
      to_numpy(std::exchange(offsets_, {0})));
}

// A type may have several objects: unpickling makes another.
bool NumberColumn::has_dtype(PyObject* descr) {
  if (descr == dtype_.ptr() || descr == known_dtype_.ptr()) return true;
  if (!py::detail::npy_api::get().PyArray_EquivTypes_(descr, dtype_.ptr())) return false;
  known_dtype_ = py::reinterpret_borrow<py::object>(descr);
  return true;
}

bool NumberColumn::append_array(PyObject* value) {
  if (!has_dtype(proxy_of(value).descr)) return false;
  std::int64_t count = 1;
  auto shape = shape_of(proxy_of(value));
  if (shape.size() == sample_shape_.size() + 1) {
    count = shape[0];
    shape = shape.subspan(1);
  }
  if (!std::ranges::equal(shape, sample_shape_)) return false;
  auto contiguous = py::reinterpret_borrow<py::object>(value);
  if (!py::detail::check_flags(value, py::detail::npy_api::NPY_ARRAY_C_CONTIGUOUS_))
    contiguous = py::array::ensure(contiguous, py::array::c_style);
  if (!contiguous) return false;
  const std::size_t bytes = static_cast<std::size_t>(count) * sample_bytes_;
  if (bytes > 0) std::memcpy(reserve(count), proxy_of(contiguous.ptr()).data, bytes);
  lay(count);
  return true;
}

bool NumberColumn::append_list(std::span<PyObject* const> items) {
  if (items.empty() || sample_shape_.size() > 1) return false;
  const auto length = static_cast<std::int64_t>(items.size());
  if (!sample_shape_.empty() && sample_shape_[0] != length) return false;
  const std::int64_t count = sample_shape_.empty() ? length : 1;
  std::uint8_t* out = reserve(count);
  for (PyObject* const item : items) {
    if (!write(item, out)) return false;
    out += element_bytes_;
  }
  lay(count);
  return true;
}

bool NumberColumn::write(PyObject* number, std::uint8_t* out) {
  const auto is_size = [this](std::size_t bytes) { return element_bytes_ == bytes; };
  switch (dtype_.kind()) {
    case 'i':
      if (is_size(8)) return write_integer<std::int64_t>(number, out);
      if (is_size(4)) return write_integer<std::int32_t>(number, out);
      if (is_size(2)) return write_integer<std::int16_t>(number, out);
      return is_size(1) && write_integer<std::int8_t>(number, out);
    case 'u':
      if (is_size(8)) return write_integer<std::uint64_t>(number, out);
      if (is_size(4)) return write_integer<std::uint32_t>(number, out);
      if (is_size(2)) return write_integer<std::uint16_t>(number, out);
      return is_size(1) && write_integer<std::uint8_t>(number, out);
    case 'f':
      return write_float(number, out);
    case 'b':
      if (PyBool_Check(number) == 0 && !is_own_scalar(number)) return false;
      store<std::uint8_t>(PyObject_IsTrue(number) == 1 ? 1 : 0, out);
      return true;
    default:
      return false;
  }
}

bool NumberColumn::write_float(PyObject* number, std::uint8_t* out) {
  const bool is_double = element_bytes_ == sizeof(double);
  if (!is_double && element_bytes_ != sizeof(float)) return false;
  const bool is_exact = is_double && PyFloat_CheckExact(number) != 0;
  if (!is_exact && !is_own_scalar(number)) return false;
  const double value = PyFloat_AsDouble(number);
  if (is_double)
    store(value, out);
  else
    store(static_cast<float>(value), out);
  return true;
}

// Integers of 2^63 and above are left to NumPy's own conversion.
template <class T>
bool NumberColumn::write_integer(PyObject* number, std::uint8_t* out) {
  py::object index;
  if (PyLong_CheckExact(number) == 0) {
    if (!is_own_scalar(number)) return false;
    index = unless_error(PyNumber_Index(number));
    if (!index) return false;
    number = index.ptr();
  }
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
  if (overflow != 0 || !std::in_range<T>(value)) return false;
  store(static_cast<T>(value), out);
  return true;
}

// Not of a subclass, whose methods may do anything.
bool NumberColumn::is_own_scalar(PyObject* number) const {
  return reinterpret_cast<PyObject*>(Py_TYPE(number)) == scalar_type_.ptr();
}

// Room for more samples after those already there.
std::uint8_t* NumberColumn::reserve(std::int64_t count) {
  const std::size_t used = static_cast<std::size_t>(offsets_.back()) * sample_bytes_;
  const std::size_t wanted = used + static_cast<std::size_t>(count) * sample_bytes_;
  if (wanted > capacity_) {
    const std::size_t capacity = std::max(wanted, 2 * capacity_);
    auto bytes = take_bytes(capacity);
    if (used > 0) std::memcpy(bytes.get(), bytes_.get(), used);
    bytes_ = std::move(bytes);
    capacity_ = capacity;
  }
  return bytes_.get() + used;
}

void NumberColumn::lay(std::int64_t count) { offsets_.push_back(offsets_.back() + count); }

bool TextColumn::append(PyObject* value) {
  py::list samples;
  const bool has_several = is_list(value);
  for (PyObject* const text :
       has_several ? items_of(value) : std::span<PyObject* const>(&value, 1)) {
    const py::object sample = encoded(text);
    if (!sample) return false;
    samples.append(sample);
  }
  sequences_.append(samples);
  return true;
}

void TextColumn::drop_last() {
  if (PySequence_DelItem(sequences_.ptr(), -1) != 0) throw py::error_already_set();
}

std::int64_t TextColumn::last_count() const {
  return static_cast<std::int64_t>(py::len(sequences_[sequences_.size() - 1]));
}

void OtherColumn::append_checked(const py::object& samples) { sequences_.append(samples); }

SampleColumns::SampleColumns(py::list fields, const py::list& likes,
                             std::vector<std::size_t> sizing, std::vector<std::int64_t> sizes)
    : fields_(std::move(fields)), sizing_(std::move(sizing)), sizes_(std::move(sizes)) {
  const auto num_samples =
      static_cast<std::size_t>(std::accumulate(sizes_.begin(), sizes_.end(), std::int64_t{0}));
  for (const py::handle like : likes) {
    if (is_array(like.ptr()))
      columns_.emplace_back(NumberColumn(py::reinterpret_borrow<py::array>(like),
                                         py::len(like) > 1 ? num_samples : sizes_.size()));
    else if (PyList_CheckExact(like.ptr()) != 0)
      columns_.emplace_back(TextColumn());
    else
      columns_.emplace_back(OtherColumn());
  }
}

bool SampleColumns::append(const py::object& result) {
  if (PyDict_CheckExact(result.ptr()) == 0) return false;
  // Held while they are laid: other keys of the dict may be of any class.
  std::vector<py::object> values;
  for (const py::handle field : fields_) {
    PyObject* const value = PyDict_GetItemWithError(result.ptr(), field.ptr());
    if (value == nullptr) {
      if (PyErr_Occurred() != nullptr) throw py::error_already_set();
      return false;
    }
    values.push_back(py::reinterpret_borrow<py::object>(value));
  }
  std::size_t done = 0;
  const auto lays = [&](auto& column) { return column.append(values[done].ptr()); };
  while (done < columns_.size() && std::visit(lays, columns_[done])) ++done;
  if (done == columns_.size() && has_planned_size()) {
    ++num_laid_;
    return true;
  }
  while (done-- > 0) std::visit([](auto& column) { column.drop_last(); }, columns_[done]);
  return false;
}

bool SampleColumns::has_planned_size() const {
  std::int64_t size = sizing_.empty() ? 1 : 0;
  for (const std::size_t i : sizing_) {
    const auto count = [](const auto& column) { return column.last_count(); };
    size = std::max(size, std::visit(count, columns_[i]));
  }
  return size > 0 && num_laid_ < sizes_.size() && size == sizes_[num_laid_];
}

void SampleColumns::append_checked(const py::list& samples) {
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const py::object value = samples[i];
    if (auto* const other = std::get_if<OtherColumn>(&columns_[i]))
      other->append_checked(value);
    else if (!std::visit([&](auto& column) { return column.append(value.ptr()); }, columns_[i]))
      throw std::logic_error("samples of stream " + std::to_string(i) +
                             " were checked and cannot be laid");
  }
  ++num_laid_;
}

py::list SampleColumns::take() {
  py::list taken;
  for (auto& column : columns_)
    taken.append(std::visit([](auto& one) { return one.take(); }, column));
  return taken;
}

void bind_sample_columns(py::module_& room) {
  py::class_<SampleColumns>(room, "SampleColumns")
      .def(py::init<py::list, const py::list&, std::vector<std::size_t>,
                    std::vector<std::int64_t>>(),
           "fields"_a, "likes"_a, "sizing"_a, "sizes"_a)
      .def("append", &SampleColumns::append, "result"_a)
      .def("append_checked", &SampleColumns::append_checked, "samples"_a)
      .def("take", &SampleColumns::take);
}

}  // namespace sweephand
