// Gradients divided by the loss scale, and looked at in the same pass over memory.
#pragma once

#include "train/tensor.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// The findings of the pass in each tensor.
struct Findings {
  std::vector<std::uint64_t> num_nan;  // among the unscaled values
  std::vector<std::uint64_t> num_inf;
  std::vector<std::uint64_t> num_small;  // below 2^-14 as they came, or 0 when unscaled
  std::vector<double> norms;             // of the values divided by the scale
};

struct UnscaleOptions {
  double scale = 1.0;
  std::size_t num_threads = 1;
};

// Divides all values by the scale in place, in float at least and rounded to their own type. A
// scale that is a power of two is multiplied by its reciprocal, which is the same. The findings
// and the values do not depend on num_threads or on the machine.
Findings unscale(std::span<const Tensor> gradients, const UnscaleOptions& options);

// The findings of the same pass, with nothing written: an element that would vanish only when
// rounded to its own type is not small here, and counts are of quotients that were not rounded.
Findings examine(std::span<const Tensor> gradients, const UnscaleOptions& options);

}  // namespace sweephand
