// Columns of the results of a user's function, one sequence after the other.
#pragma once

#include "bind/bind.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace sweephand {

// Objects of NumPy, as the ones that CPython's C functions take.
inline bool is_array(PyObject* object) {
  return Py_TYPE(object) == py::detail::npy_api::get().PyArray_Type_;
}

// REQUIRES: it is an array
inline const py::detail::PyArray_Proxy& proxy_of(PyObject* array) {
  return *py::detail::array_proxy(array);
}

// Samples of numbers: their bytes without gaps.
//
//   bytes     | sample | sample | sample | sample | room to grow |
//   offsets   0                 2        3        4
class NumberColumn {
 public:
  // `like`: samples of shape (n, *sample) that others are like. A first guess of their number
  // is `num_samples`.
  NumberColumn(const py::array& like, std::size_t num_samples);

  // Lays a value that is samples as they are: an array of the very dtype, of the shape of a
  // sample or with a first axis more; or, of a sample that is one number or one row of them,
  // Python's numbers and NumPy's, alone or listed, each of which keeps its value. False, and
  // nothing is laid, if it is something else, which may be samples all the same.
  bool append(PyObject* value);

  void drop_last();
  std::int64_t last_count() const { return offsets_.back() - offsets_[offsets_.size() - 2]; }

  // (bytes, offsets); then the column is empty.
  py::object take();

 private:
  bool has_dtype(PyObject* descr);
  bool append_array(PyObject* value);
  bool append_list(std::span<PyObject* const> items);
  bool write(PyObject* number, std::uint8_t* out);
  bool write_float(PyObject* number, std::uint8_t* out);
  template <class T>
  bool write_integer(PyObject* number, std::uint8_t* out);
  bool is_own_scalar(PyObject* number) const;
  std::uint8_t* reserve(std::int64_t count);
  void lay(std::int64_t count);

  py::dtype dtype_;
  py::object scalar_type_;
  py::object known_dtype_;  // another object for the same
  std::vector<py::ssize_t> sample_shape_;
  std::size_t element_bytes_;
  std::size_t sample_bytes_;
  std::shared_ptr<std::uint8_t> bytes_;
  std::size_t capacity_;
  std::vector<std::int64_t> offsets_{0};
};

// Samples that are texts or bytes, as a list of them for each sequence.
class TextColumn {
 public:
  // Lays bytes or a text, or a list of them; false if it is something else.
  bool append(PyObject* value);
  void drop_last();
  std::int64_t last_count() const;
  py::object take() { return std::exchange(sequences_, py::list()); }

 private:
  py::list sequences_;
};

// Samples of other kinds, which are looked at one by one.
class OtherColumn {
 public:
  static bool append(PyObject* /*value*/) { return false; }
  void append_checked(const py::object& samples);
  void drop_last() {}
  static std::int64_t last_count() { return 0; }
  py::object take() { return std::exchange(sequences_, py::list()); }

 private:
  py::list sequences_;
};

class SampleColumns {
 public:
  // `fields[i]` is the key of stream i in the function's result, and `likes[i]` the samples of
  // a model sequence: an array, a list of bytes, or something else. The size of sequence s must
  // be `sizes[s]`: that of its longest stream of those in `sizing`; 1 if there are none.
  SampleColumns(py::list fields, const py::list& likes, std::vector<std::size_t> sizing,
                std::vector<std::int64_t> sizes);

  // Appends the function's result for the next sequence. False, and nothing is appended, if
  // that is no dict, or has a value that needs inspection, or another size.
  bool append(const py::object& result);

  // Lays samples that were looked at, one entry a stream, whatever their size.
  void append_checked(const py::list& samples);

  // Of each stream (bytes, offsets), or a list of sequences; then they are empty.
  py::list take();

 private:
  using Column = std::variant<NumberColumn, TextColumn, OtherColumn>;

  bool has_planned_size() const;

  py::list fields_;
  std::vector<Column> columns_;
  std::vector<std::size_t> sizing_;
  std::vector<std::int64_t> sizes_;
  std::size_t num_laid_ = 0;
};

void bind_sample_columns(py::module_& room);

}  // namespace sweephand
