// Types of Python that are written in C: a C++ value each, which the garbage collector may look
// into, and from which classes of Python may derive. A value has `each(visit)`, which calls
// `visit` for every py::object in it.
#pragma once

#include "bind/bind.hpp"

#include <pybind11/critical_section.h>

#include <array>
#include <cstddef>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace sweephand {

// A value as an object of Python, which the garbage collector may look into. Attributes that
// Python adds come after the head: none, until there are some.
template <class Value>
struct Object {
  PyObject head;
  PyObject* added;
  Value value;
};

template <class Value>
Value& value_of(PyObject* self) {
  return reinterpret_cast<Object<Value>*>(self)->value;
}

// The result of `action`; CPython calls it, and knows no exception of C++.
template <class Action>
auto or_error(const Action& action) -> decltype(action()) {
  try {
    return action();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (...) {
    py::detail::try_translate_exceptions();  // ours have types of their own in Python
  }
  return {};
}

// The same, while no other thread uses the object: without a GIL several may.
template <class Action>
auto or_error(PyObject* self, const Action& action) -> decltype(action()) {
  return or_error([&] {
    const py::scoped_critical_section alone{self};
    return action();
  });
}

// REQUIRES: `type` is of objects with such a value
template <class Value>
PyObject* make(PyTypeObject* type, Value value) {
  PyObject* const self = type->tp_alloc(type, 0);
  if (self != nullptr) new (&value_of<Value>(self)) Value(std::move(value));
  return self;
}

template <class Value>
int traverse(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(reinterpret_cast<Object<Value>*>(self)->added);
  int found = 0;
  value_of<Value>(self).each([&](const py::object& held) {
    if (found == 0 && held) found = visit(held.ptr(), arg);
  });
  return found;
}

// Values that are visited as const must stay unchanged: others point into them.
template <class Value>
int clear(PyObject* self) {
  Py_CLEAR(reinterpret_cast<Object<Value>*>(self)->added);
  value_of<Value>(self).each([](auto& held) {
    if constexpr (!std::is_const_v<std::remove_reference_t<decltype(held)>>)
      const py::object dropped = std::move(held);
  });
  return 0;
}

template <class Value>
void dealloc(PyObject* self) {
  PyTypeObject* const type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Py_CLEAR(reinterpret_cast<Object<Value>*>(self)->added);
  value_of<Value>(self).~Value();
  type->tp_free(self);
  Py_DECREF(type);
}

// As CPython's tables hold functions.
template <class Function>
void* slot(Function* function) {
  return reinterpret_cast<void*>(function);
}

template <class Value>
PyTypeObject* make_type(const char* name, unsigned flags, std::vector<PyType_Slot> slots) {
  for (const PyType_Slot& one : {PyType_Slot{Py_tp_traverse, slot(&traverse<Value>)},
                                 {Py_tp_clear, slot(&clear<Value>)},
                                 {Py_tp_dealloc, slot(&dealloc<Value>)},
                                 {0, nullptr}})
    slots.push_back(one);
  PyType_Spec spec{
      .name = name,
      .basicsize = sizeof(Object<Value>),
      .itemsize = 0,
      .flags = static_cast<unsigned>(Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC) | flags,
      .slots = slots.data()};
  PyObject* const type = PyType_FromSpec(&spec);
  if (type == nullptr) throw py::error_already_set();
  return reinterpret_cast<PyTypeObject*>(type);
}

// A name as attributes are asked for: the same object each time.
inline PyObject* interned(const char* name) {
  PyObject* const object = PyUnicode_InternFromString(name);
  if (object == nullptr) throw py::error_already_set();
  return object;
}

// A question that the core answers, if it can: null where Python has to.
template <class Value>
struct Answer {
  PyObject* name;
  PyObject* (*of)(Value& value);
};

// An attribute: the core's answer, unless Python has set it; then Python's own; or an error.
// For an unknown name the method `explain` may raise a better error.
template <class Value, std::size_t Number>
PyObject* answer(const std::array<Answer<Value>, Number>& answers, PyObject* self,
                 PyObject* asked, PyObject* explain) {
  PyObject* const added = reinterpret_cast<Object<Value>*>(self)->added;
  for (const Answer<Value>& one : answers) {
    if (one.name != asked) continue;
    if (added != nullptr && PyDict_Contains(added, asked) == 1) break;
    PyObject* const told = or_error(self, [&] { return one.of(value_of<Value>(self)); });
    if (told != nullptr || PyErr_Occurred() != nullptr) return told;
    break;
  }
  PyObject* const found = PyObject_GenericGetAttr(self, asked);
  if (found != nullptr || PyErr_ExceptionMatches(PyExc_AttributeError) == 0 || asked == explain)
    return found;
  return or_error([&]() -> PyObject* {
    py::error_already_set missing;
    const auto explained =
        py::reinterpret_steal<py::object>(PyObject_CallMethodOneArg(self, explain, asked));
    if (explained) missing.restore();
    return nullptr;
  });
}

}  // namespace sweephand
