// What every binding file includes: the casters, each once for all files, and the way into
// NumPy.
#pragma once

#include "base/error.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <exception>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

namespace py = pybind11;
using namespace py::literals;

// An array that owns the buffer of `values`: moved, not copied.
template <class T, class Allocator>
py::array_t<T> to_numpy(std::vector<T, Allocator>&& values) {
  using Owner = std::vector<T, Allocator>;
  auto owner = std::make_unique<Owner>(std::move(values));
  const auto size = static_cast<py::ssize_t>(owner->size());
  T* const data = owner->data();
  const py::capsule capsule(owner.release(), [](void* pointer) {
    std::unique_ptr<Owner>(static_cast<Owner*>(pointer)).reset();
  });
  return py::array_t<T>(size, data, capsule);
}

// An array that is taken as it is, without a copy, if it is C-contiguous and of this type.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// REQUIRES: the buffer is contiguous
inline std::span<const std::byte> to_bytes(const py::buffer_info& buffer) {
  return {static_cast<const std::byte*>(buffer.ptr),
          static_cast<std::size_t>(buffer.size * buffer.itemsize)};
}

// A Python object that the core keeps: it is let go with the GIL, whichever thread is the last
// to hold it.
template <class T>
std::shared_ptr<const T> hold(T object) {
  return {new T(std::move(object)), [](const T* held) {
            const py::gil_scoped_acquire gil;
            delete held;  // NOLINT(cppcoreguidelines-owning-memory)
          }};
}

// Calls Python code for the core. What is no Exception, such as KeyboardInterrupt, is told at
// once to whoever waits. REQUIRES: the GIL is held
template <class... Arguments>
py::object call(const py::function& function, const Arguments&... arguments) {
  try {
    return function(arguments...);
  } catch (const py::error_already_set& error) {
    if (error.matches(PyExc_Exception)) throw;
    throw Interruption(std::current_exception());
  }
}

// Tells Python code of damage; what it raises goes to whoever waits.
Report report_to(py::function function);

void bind_base(py::module_& module);
void bind_compose(py::module_& module);
void bind_engine(py::module_& module);
void bind_index(py::module_& module);
void bind_order(py::module_& module);
void bind_formats(py::module_& module);
void bind_read(py::module_& module);
void bind_train(py::module_& module);

}  // namespace sweephand
