// Objects of NumPy, as the ones that CPython's C functions take.
#pragma once

#include "bind/bind.hpp"

namespace sweephand {

inline bool is_array(PyObject* object) {
  return Py_TYPE(object) == py::detail::npy_api::get().PyArray_Type_;
}

// REQUIRES: it is an array
inline const py::detail::PyArray_Proxy& proxy_of(PyObject* array) {
  return *py::detail::array_proxy(array);
}

// A NumPy scalar; np.void is none, as it can be written to.
inline bool is_numpy_number(PyObject* object) {
  PyTypeObject* const void_type = py::detail::npy_api::get().PyVoidArrType_Type_;
  PyTypeObject* const generic = void_type->tp_base->tp_base;
  return PyType_IsSubtype(Py_TYPE(object), generic) != 0 &&
         PyType_IsSubtype(Py_TYPE(object), void_type) == 0;
}

}  // namespace sweephand
