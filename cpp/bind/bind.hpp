// The include of every binding file: the casters, each once for all files, and the conversion
// to NumPy.
#pragma once

#include "base/error.hpp"

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <span>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sweephand {

// Taking and releasing the GIL without ending a thread in the middle of its work.
namespace py = pybind11;

// The result of `action`, which may wait for the GIL, and is C. Until Python 3.13 a thread that
// requests the GIL when the interpreter ends is unwound: through a destructor that takes the
// whole process with it, and through a handler of ours it cannot go either. As Python 3.14
// does, such a thread stays here, until the process has ended.
template <class Action>
auto or_stay(const Action& action) {
  try {
    return action();
  } catch (...) {  // not by a C++ exception, which C does not throw
    while (true) pause();
  }
}

// True if the interpreter is shutting down.
inline bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Holds the GIL, on any thread.
class Gil {
 public:
  Gil() : state_(or_stay([] { return PyGILState_Ensure(); })) {}
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  ~Gil() {
    or_stay([this] { PyGILState_Release(state_); });
  }

 private:
  PyGILState_STATE state_;
};

// Gives the GIL away for a while. REQUIRES: it is held
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    or_stay([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

using NoGil = py::call_guard<WithoutGil>;

// The result of `action`, called without the GIL.
template <class Action>
auto without_gil(const Action& action) {
  const WithoutGil nogil;
  return action();
}

using namespace py::literals;

// The base of an array whose entries `owner` keeps.
template <class Owner>
py::capsule keep(Owner owner) {
  return {new Owner(std::move(owner)), [](void* pointer) {
            const std::unique_ptr<Owner> dropped(static_cast<Owner*>(pointer));
          }};
}

// An array that owns the buffer of `values`: moved, not copied.
template <class T, class Allocator>
py::array_t<T> to_numpy(std::vector<T, Allocator>&& values) {
  T* const data = values.data();  // which moves along
  const auto size = static_cast<py::ssize_t>(values.size());
  return py::array_t<T>(size, data, keep(std::move(values)));
}

template <class T>
py::array_t<T> copy_to_numpy(std::vector<T> values) {
  return to_numpy(std::move(values));
}

// A tuple of arrays.
template <class... T>
auto to_arrays_of(std::vector<T>&&... values) {
  return py::make_tuple(to_numpy(std::move(values))...);
}

// The vector that `make` returns, made without the GIL.
template <class Make>
auto to_numpy_without_gil(const Make& make) {
  return to_numpy(without_gil(make));
}

// Binds a function, a method or a member whose vector becomes an array.
template <class T, class... Arguments>
auto as_array(std::vector<T> (*function)(Arguments...)) {
  return [function](Arguments... arguments) {
    return to_numpy_without_gil(
        [&] { return function(std::forward<Arguments>(arguments)...); });
  };
}
template <class Vector, class Class, class... Arguments>
auto as_array(Vector (Class::*method)(Arguments...) const) {
  return [method](const Class& self, Arguments... arguments) {
    return copy_to_numpy(
        without_gil([&] { return (self.*method)(std::forward<Arguments>(arguments)...); }));
  };
}
template <class T, class Class>
auto as_array(std::vector<T> Class::* member) {
  return [member](const Class& self) { return copy_to_numpy(self.*member); };
}

// An array that is taken as it is, without a copy, if it is C-contiguous and of this type.
template <class T>
using Array = py::array_t<T, py::array::c_style>;

template <class T>
std::span<const T> view(const Array<T>& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// The same of one that may be None.
template <class T>
std::optional<std::span<const T>> view(const std::optional<Array<T>>& array) {
  return array ? std::optional(view(*array)) : std::nullopt;
}

template <class T>
std::vector<T> to_vector(const Array<T>& array) {
  return {view(array).begin(), view(array).end()};
}

// To be written to. REQUIRES: it was taken as it is, not converted
inline std::span<std::byte> writable_bytes(Array<std::uint8_t>& array) {
  return std::as_writable_bytes(
      std::span(array.mutable_data(), static_cast<std::size_t>(array.size())));
}

// REQUIRES: the buffer is contiguous
inline std::span<const std::byte> to_bytes(const py::buffer_info& buffer) {
  return {static_cast<const std::byte*>(buffer.ptr),
          static_cast<std::size_t>(buffer.size * buffer.itemsize)};
}

// A Python object that the core keeps: it is let go with the GIL, whichever thread is the last
// to hold it; at the end of the process it is left alone.
template <class T>
std::shared_ptr<const T> hold(T object) {
  return {new T(std::move(object)), [](const T* held) {
            if (interpreter_ends() && PyGILState_Check() == 0) return;
            const Gil gil;
            delete held;  // NOLINT(cppcoreguidelines-owning-memory)
          }};
}

// Calls Python code for the core. Anything but an Exception, such as KeyboardInterrupt, is
// reported at once to the waiting thread. REQUIRES: the GIL is held
template <class... Arguments>
py::object call(const py::function& function, const Arguments&... arguments) {
  const py::tuple given = py::make_tuple(arguments...);
  PyObject* const returned =
      or_stay([&] { return PyObject_CallObject(function.ptr(), given.ptr()); });
  if (returned != nullptr) return py::reinterpret_steal<py::object>(returned);
  const py::error_already_set error;
  if (error.matches(PyExc_Exception)) throw error;
  throw Interruption(std::make_exception_ptr(error));
}

// Reports damage to Python code; its exceptions go to the waiting thread.
Report report_to(py::function function);

// Each fills the submodule of its room.
void bind_base(py::module_& room);
void bind_index(py::module_& room);
void bind_order(py::module_& room);
void bind_compose(py::module_& room);
void bind_lengths(py::module_& room);
void bind_read(py::module_& room);
void bind_formats(py::module_& room);
void bind_batch(py::module_& room);
void bind_engine(py::module_& room);
void bind_train(py::module_& room);
void bind_testing(py::module_& room);

}  // namespace sweephand

// Numbers that a function only looks at are an Array.
template <class T>
struct pybind11::detail::type_caster<std::span<const T>> {
  static constexpr auto name = make_caster<sweephand::Array<T>>::name;
  template <class>
  using cast_op_type = std::span<const T>;

  bool load(handle source, bool convert) { return array_.load(source, convert); }
  operator std::span<const T>() {  // NOLINT(google-explicit-constructor)
    return sweephand::view(static_cast<sweephand::Array<T>&>(array_));
  }

 private:
  make_caster<sweephand::Array<T>> array_;
};
