// One step of an optimizer over many tensors, in place and in one pass over memory.
#pragma once

#include "train/rules.hpp"
#include "train/tensor.hpp"

#include <cstddef>
#include <span>
#include <vector>

namespace sweephand {

// The arrays of one tensor: all of one size, the moments of the type of the weights.
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
