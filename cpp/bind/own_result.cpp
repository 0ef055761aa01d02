#include "bind/own_result.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {
namespace {

using Npy = py::detail::npy_api;

bool is_array(PyObject* object) { return Py_TYPE(object) == Npy::get().PyArray_Type_; }

const py::detail::PyArray_Proxy& proxy_of(PyObject* array) {
  return *py::detail::array_proxy(array);
}

bool is_owner(PyObject* array) {
  return py::detail::check_flags(array, Npy::NPY_ARRAY_OWNDATA_);
}

// A number of NumPy that stands alone; np.void is none, as it can be written to.
bool is_numpy_number(PyObject* object) {
  PyTypeObject* const void_type = Npy::get().PyVoidArrType_Type_;
  PyTypeObject* const generic = void_type->tp_base->tp_base;
  return PyType_IsSubtype(Py_TYPE(object), generic) != 0 &&
         PyType_IsSubtype(Py_TYPE(object), void_type) == 0;
}

bool is_text(PyObject* object) {
  return PyBytes_CheckExact(object) != 0 || PyUnicode_CheckExact(object) != 0;
}

bool is_immutable(PyObject* object) {
  return is_text(object) || object == Py_None || PyBool_Check(object) != 0 ||
         PyLong_CheckExact(object) != 0 || PyFloat_CheckExact(object) != 0 ||
         is_numpy_number(object);
}

// Texts alone, each of which nobody can change.
bool holds_texts(PyObject* array) {
  if (!py::detail::check_flags(array, Npy::NPY_ARRAY_C_CONTIGUOUS_)) return false;
  const auto& proxy = proxy_of(array);
  std::size_t size = 1;
  for (int axis = 0; axis < proxy.nd; ++axis)
    size *= static_cast<std::size_t>(proxy.dimensions[axis]);
  const std::span objects(reinterpret_cast<PyObject* const*>(proxy.data), size);
  return std::ranges::all_of(objects,
                             [](PyObject* one) { return one != nullptr && is_text(one); });
}

// The memory that the elements of an array take.
struct Memory {
  explicit Memory(PyObject* array) {
    const auto& proxy = proxy_of(array);
    begin = end = reinterpret_cast<std::uintptr_t>(proxy.data);
    for (int axis = 0; axis < proxy.nd; ++axis) {
      if (proxy.dimensions[axis] == 0) return;
      const auto reach = (proxy.dimensions[axis] - 1) * proxy.strides[axis];
      (reach < 0 ? begin : end) += static_cast<std::uintptr_t>(reach);
    }
    end +=
        static_cast<std::uintptr_t>(py::reinterpret_borrow<py::dtype>(proxy.descr).itemsize());
  }

  bool holds(const Memory& other) const { return begin <= other.begin && other.end <= end; }

  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// An array that owns memory, and how often it is held where nobody else holds it.
struct Root {
  PyObject* array;
  Py_ssize_t count;
};

class Judge {
 public:
  // Before the call: an array that is given, which a list holds.
  void give(PyObject* array) {
    given_.push_back(array);
    if (PyObject* const base = proxy_of(array).base; base != nullptr && is_array(base))
      root_of(base, Py_REFCNT(base));
  }

  // After it. REQUIRES: what holds `result` besides the caller does so `count` - 1 times
  bool owns(PyObject* result, Py_ssize_t count) {
    return looks_own(result, count) && std::ranges::all_of(roots_, [](const Root& root) {
             return Py_REFCNT(root.array) == root.count;
           });
  }

 private:
  bool looks_own(PyObject* object, Py_ssize_t count) {
    if (is_array(object)) return array_looks_own(object, count);
    if (is_immutable(object)) return true;
    if (Py_REFCNT(object) != count) return false;
    if (PyDict_CheckExact(object) != 0) {
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value) != 0;)
        if (!looks_own(value, 1)) return false;
      return true;
    }
    if (PyList_CheckExact(object) == 0 && PyTuple_CheckExact(object) == 0) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (!looks_own(PySequence_Fast_GET_ITEM(object, i), 1)) return false;
    return true;
  }

  bool array_looks_own(PyObject* array, Py_ssize_t count) {
    const auto& proxy = proxy_of(array);
    if (py::reinterpret_borrow<py::dtype>(proxy.descr).kind() == 'O' && !holds_texts(array))
      return false;
    const bool is_given = std::ranges::find(given_, array) != given_.end();
    if (Py_REFCNT(array) != (is_given ? count + 1 : count)) return false;
    if (proxy.base == nullptr) return is_owner(array);
    if (PyBytes_CheckExact(proxy.base) != 0) return true;
    if (!is_array(proxy.base)) return false;
    if (is_given) return true;  // its root was counted before
    if (is_of_given(proxy.base)) {
      if (!lies_in_given(array, proxy.base)) return false;
    } else if (proxy_of(proxy.base).base != nullptr || !is_owner(proxy.base)) {
      return false;
    }
    ++root_of(proxy.base, 0).count;
    return true;
  }

  bool is_of_given(PyObject* base) const {
    return std::ranges::any_of(given_,
                               [&](PyObject* given) { return proxy_of(given).base == base; });
  }

  // Beside what was given lies what other calls were given, and may have kept.
  bool lies_in_given(PyObject* array, PyObject* base) const {
    return std::ranges::any_of(given_, [&](PyObject* given) {
      return proxy_of(given).base == base && Memory(given).holds(Memory(array));
    });
  }

  Root& root_of(PyObject* array, Py_ssize_t count) {
    const auto found = std::ranges::find(roots_, array, &Root::array);
    if (found != roots_.end()) return *found;
    return roots_.emplace_back(Root{.array = array, .count = count});
  }

  std::vector<PyObject*> given_;
  std::vector<Root> roots_;
};

template <class Call>
py::object called(const Call& call) {
  PyObject* const returned = or_stay(call);
  if (returned == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(returned);
}

}  // namespace

py::tuple own_call(const py::object& function, const py::tuple& arguments) {
  const py::object result =
      called([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); });
  const bool is_own = Judge().owns(result.ptr(), 1);
  return py::make_tuple(result, is_own);
}

py::tuple map_call(const py::object& function, const py::list& names, const py::list& streams,
                   py::ssize_t number, const py::object& key) {
  Judge judge;
  py::dict sequence;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto values = py::reinterpret_borrow<py::list>(PyList_GET_ITEM(streams.ptr(), i));
    const py::handle value = PyList_GetItem(values.ptr(), number);
    if (!value) throw py::error_already_set();
    sequence[names[i]] = value;
    if (is_array(value.ptr())) judge.give(value.ptr());
  }
  const std::array<PyObject*, 2> arguments = {sequence.ptr(), key.ptr()};
  const py::object result = called([&] {
    const std::size_t count = key.is_none() ? 1 : 2;
    return PyObject_Vectorcall(function.ptr(), arguments.data(), count, nullptr);
  });
  const bool is_given = result.is(sequence);
  if (!is_given) sequence = py::dict();
  const bool is_own = judge.owns(result.ptr(), is_given ? 2 : 1);
  return py::make_tuple(result, is_own);
}

}  // namespace sweephand
