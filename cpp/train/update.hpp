// One step of an optimizer over many tensors, in place and in one pass over memory.
#pragma once

#include "train/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <span>
#include <variant>
#include <vector>

namespace sweephand {

// The rules of optimizers: the move of a weight, and the state that each keeps.
//
// A rule is a struct of its constants, with their names and its own, and a line in AnyRule
// below: from these its binding is made. on<T>() is its formula for weights of type T: a
// function of the gradient g and of two moments, which it changes, that returns how far the
// weight moves per unit of rate. A rule that needs fewer moments does not touch the others.
//
// g
struct Sgd {
  static constexpr auto kName = "Sgd";
  static constexpr auto kConstants = std::array<const char*, 0>{};
  template <class T>
  auto on() const {
    return [](T gradient, T&, T&) __attribute__((always_inline)) { return gradient; };
  }
};

// v = momentum * v + gain * g;  v or, looking ahead, momentum * v + gain * g
template <bool kLooksAhead>
struct WithMomentum {
  static constexpr auto kName = kLooksAhead ? "Nesterov" : "Momentum";
  static constexpr auto kConstants = std::array{"momentum", "gain"};
  double momentum;
  double gain;

  template <class T>
  auto on() const {
    return [momentum = static_cast<T>(momentum), gain = static_cast<T>(gain)](
               T gradient, T& velocity, T&) __attribute__((always_inline)) {
      velocity = momentum * velocity + gain * gradient;
      return kLooksAhead ? momentum * velocity + gain * gradient : velocity;
    };
  }
};
using Momentum = WithMomentum<false>;
using Nesterov = WithMomentum<true>;

// m = beta_1 * m + (1 - beta_1) * g;  v = beta_2 * v + (1 - beta_2) * g * g
// m / (sqrt(v) * root_scale + epsilon)
struct Adam {
  static constexpr auto kName = "Adam";
  static constexpr auto kConstants = std::array{"beta_1", "beta_2", "epsilon", "root_scale"};
  double beta_1;
  double beta_2;
  double epsilon;
  double root_scale;

  template <class T>
  auto on() const {
    return [beta_1 = static_cast<T>(beta_1), gain_1 = static_cast<T>(1.0 - beta_1),
            beta_2 = static_cast<T>(beta_2), gain_2 = static_cast<T>(1.0 - beta_2),
            epsilon = static_cast<T>(epsilon), root_scale = static_cast<T>(root_scale)](
               T gradient, T& mean, T& square) __attribute__((always_inline)) {
      mean = beta_1 * mean + gain_1 * gradient;
      square = beta_2 * square + gain_2 * gradient * gradient;
      return mean / (std::sqrt(square) * root_scale + epsilon);
    };
  }
};

using AnyRule = std::variant<Sgd, Momentum, Nesterov, Adam>;

// One of the rules, as a type of its own.
struct Rule : AnyRule {
  using AnyRule::AnyRule;
};

// The arrays of one tensor: all of one size, the moments of float or double.
struct Slot {
  Tensor weights;        // float or double: where the arithmetic happens; or, of the float32
                         // master of a bfloat16 parameter, the lower 16 bits
  Tensor parameter;      // what the model reads: the same memory, or a rounded copy of it
  Tensor gradient;       // of any type; only read
  Tensor first_moment;   // `weights` again for a rule that needs none
  Tensor second_moment;  // the same
};

// The slots of tensors listed part by part.
// REQUIRES: the lists are of one length; entries of one index are of one size
std::vector<Slot> zip_slots(std::span<const Tensor> weights, std::span<const Tensor> parameters,
                            std::span<const Tensor> gradients,
                            std::span<const Tensor> first_moments,
                            std::span<const Tensor> second_moments);

// Steps around every rule, with g the gradient and w the weight: g *= factor, so that mean,
// loss scale and clipping cost no extra pass; then w = decay * w - rate * rule(g).
struct UpdateOptions {
  double factor = 1.0;
  double decay = 1.0;
  double rate = 0.0;
  std::size_t num_threads = 1;
};

// The constants are rounded to the type of the weights and no operations are fused: the result
// is that of the formulas, whatever the machine and the number of threads.
void update(std::span<const Slot> slots, const UpdateOptions& options, const Rule& rule);

}  // namespace sweephand
