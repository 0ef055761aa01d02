// One step of an optimizer over many tensors, in place and in one pass over memory.
#pragma once

#include "train/tensor.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sweephand {

// What belongs to one tensor: all of one size, the moments of the type of the weights.
struct Slot {
  Tensor weights;        // float or double: where the arithmetic happens
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

// What every rule below does first, with g the gradient and w the weight: g *= factor, so that
// mean, loss scale and clipping cost no pass of their own, and w *= decay.
struct Step {
  double factor = 1.0;
  double decay = 1.0;
  double rate = 0.0;
  std::size_t num_threads = 1;
};

// w -= rate * g
struct Sgd {};

// v = momentum * v + gain * g;  w -= rate * v
struct Momentum {
  double momentum;
  double gain;
};

// v as above;  w -= rate * (momentum * v + gain * g)
struct Nesterov {
  double momentum;
  double gain;
};

// m = beta_1 * m + (1 - beta_1) * g;  v = beta_2 * v + (1 - beta_2) * g * g
// w -= rate * m / (sqrt(v) * root_scale + epsilon)
struct Adam {
  double beta_1;
  double beta_2;
  double epsilon;
  double root_scale;
};

// The constants are rounded to the type of the weights and no operations are fused: the result
// is that of the formulas, whatever the machine and the number of threads.
void update(std::span<const Slot> slots, const Step& step, const Sgd& rule);
void update(std::span<const Slot> slots, const Step& step, const Momentum& rule);
void update(std::span<const Slot> slots, const Step& step, const Nesterov& rule);
void update(std::span<const Slot> slots, const Step& step, const Adam& rule);

}  // namespace sweephand
