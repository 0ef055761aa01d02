// Loss scale and parameter updates over lists of arrays.
#include "bind/bind.hpp"
#include "train/tensor.hpp"
#include "train/unscale.hpp"
#include "train/update.hpp"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Arrays = std::vector<py::array>;

// NumPy has no bfloat16 of its own: its bits come as uint16.
FloatType float_type(const py::dtype& dtype) {
  switch (dtype.char_()) {
    case 'e':
      return FloatType::kFloat16;
    case 'H':
      return FloatType::kBfloat16;
    case 'f':
      return FloatType::kFloat32;
    case 'd':
      return FloatType::kFloat64;
    default:
      throw std::invalid_argument("no such element type: " + std::string(1, dtype.char_()));
  }
}

// The elements of contiguous arrays, which stay theirs. Callers see to it that those to be
// changed are writable.
std::vector<Tensor> tensors_of(const Arrays& arrays) {
  std::vector<Tensor> tensors;
  tensors.reserve(arrays.size());
  for (const py::array& array : arrays) {
    tensors.push_back({.data = const_cast<void*>(array.data()),
                       .size = static_cast<std::size_t>(array.size()),
                       .type = float_type(array.dtype())});
  }
  return tensors;
}

py::tuple to_python(Findings&& findings) {
  return py::make_tuple(
      to_numpy(std::move(findings.num_nan)), to_numpy(std::move(findings.num_inf)),
      to_numpy(std::move(findings.num_small)), to_numpy(std::move(findings.sum_of_squares)));
}

template <Findings (*Look)(std::span<const Tensor>, const UnscaleOptions&)>
py::tuple look(const Arrays& gradients, double scale, std::size_t num_threads, bool portable) {
  const std::vector<Tensor> tensors = tensors_of(gradients);
  Findings findings;
  {
    const py::gil_scoped_release nogil;
    findings =
        Look(tensors, {.scale = scale, .num_threads = num_threads, .portable = portable});
  }
  return to_python(std::move(findings));
}

// One array per tensor in every list. A rule without moments is given the weights for them.
void update_arrays(const Rule& rule, const Step& step, const Arrays& weights,
                   const Arrays& parameters, const Arrays& gradients,
                   const Arrays& first_moments, const Arrays& second_moments) {
  const std::vector<Slot> slots =
      zip_slots(tensors_of(weights), tensors_of(parameters), tensors_of(gradients),
                tensors_of(first_moments), tensors_of(second_moments));
  const py::gil_scoped_release nogil;
  update(slots, step, rule);
}

}  // namespace

void bind_train(py::module_& room) {
  room.def("unscale", &look<unscale>, "gradients"_a, "scale"_a, "num_threads"_a, "portable"_a);
  room.def("examine", &look<examine>, "gradients"_a, "scale"_a, "num_threads"_a, "portable"_a);

  py::class_<Step>(room, "Step")
      .def(py::init<double, double, double, std::size_t>(), "factor"_a, "decay"_a, "rate"_a,
           "num_threads"_a);
  py::class_<Sgd>(room, "Sgd").def(py::init<>());
  py::class_<Momentum>(room, "Momentum")
      .def(py::init<double, double>(), "momentum"_a, "gain"_a);
  py::class_<Nesterov>(room, "Nesterov")
      .def(py::init<double, double>(), "momentum"_a, "gain"_a);
  py::class_<Lion>(room, "Lion").def(py::init<double, double>(), "beta_1"_a, "beta_2"_a);
  py::class_<Adam>(room, "Adam")
      .def(py::init<double, double, double, double>(), "beta_1"_a, "beta_2"_a, "epsilon"_a,
           "root_scale"_a);
  py::class_<AdaMax>(room, "AdaMax")
      .def(py::init<double, double, double>(), "beta_1"_a, "beta_2"_a, "epsilon"_a);
  py::class_<AdaGrad>(room, "AdaGrad").def(py::init<double>(), "epsilon"_a);
  py::class_<RmsProp>(room, "RmsProp")
      .def(py::init<double, double, double>(), "rho"_a, "momentum"_a, "epsilon"_a);
  py::class_<AdaDelta>(room, "AdaDelta").def(py::init<double, double>(), "rho"_a, "epsilon"_a);
  room.def("update", &update_arrays, "rule"_a, "step"_a, "weights"_a, "parameters"_a,
           "gradients"_a, "first_moments"_a, "second_moments"_a);
}

}  // namespace sweephand
