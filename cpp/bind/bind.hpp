// What every binding file includes: the casters, each once for all files, and the way into
// NumPy.
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>

#include <memory>
#include <utility>
#include <vector>

namespace sweephand {

namespace py = pybind11;
using namespace py::literals;

// An array that owns the buffer of `values`: moved, not copied.
template <class T>
py::array_t<T> to_numpy(std::vector<T>&& values) {
  auto owner = std::make_unique<std::vector<T>>(std::move(values));
  const auto size = static_cast<py::ssize_t>(owner->size());
  T* const data = owner->data();
  const py::capsule capsule(owner.release(), [](void* pointer) {
    std::unique_ptr<std::vector<T>>(static_cast<std::vector<T>*>(pointer)).reset();
  });
  return py::array_t<T>(size, data, capsule);
}

void bind_base(py::module_& module);
void bind_train(py::module_& module);

}  // namespace sweephand
