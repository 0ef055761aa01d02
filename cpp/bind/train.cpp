// Loss scale and parameter updates over lists of arrays, and sums of losses.
#include "bind/bind.hpp"
#include "train/segment_sums.hpp"
#include "train/tensor.hpp"
#include "train/unscale.hpp"
#include "train/update.hpp"

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace sweephand {
namespace {

using Arrays = std::vector<py::array>;

// By NumPy's type letters. NumPy has no bfloat16: its bits come as uint16.
ElementType float_type(char letter) {
  switch (letter) {
    case 'e':
      return ElementType::kFloat16;
    case 'H':
      return ElementType::kBFloat16;
    case 'f':
      return ElementType::kFloat32;
    case 'd':
      return ElementType::kFloat64;
    default:
      throw std::invalid_argument("no such element type: " + std::string(1, letter));
  }
}

// The elements of contiguous arrays, without a copy. Callers check that arrays to be changed
// are writable.
std::vector<Tensor> tensors_of(const Arrays& arrays) {
  std::vector<Tensor> tensors;
  tensors.reserve(arrays.size());
  for (const py::array& array : arrays) {
    tensors.push_back({.data = const_cast<void*>(array.data()),
                       .size = static_cast<std::size_t>(array.size()),
                       .type = float_type(array.dtype().char_())});
  }
  return tensors;
}

// Tensors that belong to Python, which keeps them as long as they are used.
struct Tensors {
  std::vector<Tensor> all;
};

Tensors tensors_at(const std::vector<std::uintptr_t>& addresses,
                   const std::vector<std::size_t>& sizes, const std::string& letters) {
  if (addresses.size() != sizes.size() || sizes.size() != letters.size()) {
    throw std::invalid_argument("addresses, sizes and letters must be of one length");
  }
  Tensors tensors;
  tensors.all.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): torch tells addresses as numbers
    tensors.all.push_back({.data = reinterpret_cast<void*>(addresses[i]),
                           .size = sizes[i],
                           .type = float_type(letters[i])});
  }
  return tensors;
}

py::tuple to_python(Findings&& findings) {
  return to_arrays_of(std::move(findings.num_nan), std::move(findings.num_inf),
                      std::move(findings.num_small), std::move(findings.norms));
}

template <Findings (*Pass)(std::span<const Tensor>, const UnscaleOptions&)>
py::tuple pass_over(const Tensors& gradients, double scale, std::size_t num_threads) {
  return to_python(without_gil(
      [&] { return Pass(gradients.all, {.scale = scale, .num_threads = num_threads}); }));
}

// One array per tensor in every list. A rule without moments gets the weights in their place.
void update_arrays(const Rule& rule, const UpdateOptions& options, const Arrays& weights,
                   const Arrays& parameters, const Arrays& gradients,
                   const Arrays& first_moments, const Arrays& second_moments) {
  const std::vector<Slot> slots =
      zip_slots(tensors_of(weights), tensors_of(parameters), tensors_of(gradients),
                tensors_of(first_moments), tensors_of(second_moments));
  const WithoutGil nogil;
  update(slots, options, rule);
}

// A function that makes a rule from its constants, which are numbers.
template <class One, std::size_t... I>
void bind_rule(py::module_& room, std::index_sequence<I...> /*constants*/) {
  room.def(
      One::kName,
      [](decltype(static_cast<void>(I), double{})... constants) {
        return Rule(One{constants...});
      },
      py::arg(One::kConstants[I])...);
}

template <class... All>
void bind_rules(py::module_& room, const std::variant<All...>* /*type*/) {
  (bind_rule<All>(room, std::make_index_sequence<All::kConstants.size()>()), ...);
}

}  // namespace

void bind_train(py::module_& room) {
  py::class_<Tensors>(room, "Tensors")
      .def(py::init([](const Arrays& arrays) { return Tensors{tensors_of(arrays)}; }),
           "arrays"_a)
      .def_static("at", &tensors_at, "addresses"_a, "sizes"_a, "letters"_a)
      .def("find_shared", [](const Tensors& self) { return find_shared(self.all); })
      .def_property_readonly("num_elements",
                             [](const Tensors& self) { return num_elements(self.all); });
  room.def("unscale", &pass_over<unscale>, "gradients"_a, "scale"_a, "num_threads"_a);
  room.def("examine", &pass_over<examine>, "gradients"_a, "scale"_a, "num_threads"_a);

  py::class_<UpdateOptions>(room, "UpdateOptions")
      .def(py::init<double, double, double, std::size_t>(), "factor"_a, "decay"_a, "rate"_a,
           "num_threads"_a);
  const py::class_<Rule> rule(room, "Rule");
  bind_rules(room, static_cast<AnyRule*>(nullptr));
  room.def("update", &update_arrays, "rule"_a, "options"_a, "weights"_a, "parameters"_a,
           "gradients"_a, "first_moments"_a, "second_moments"_a);

  room.def("segment_sums", as_array(&segment_sums), "values"_a, "begins"_a, "sizes"_a);
  room.def("row_sums", as_array(&row_sums), "values"_a, "cells"_a, "sizes"_a, "width"_a);
}

}  // namespace sweephand
