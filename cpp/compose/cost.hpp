// The cost of a sequence for its worker, by its size alone.
#pragma once

#include "base/mix.hpp"

#include <cstdint>

namespace sweephand {

// Integers, so that all workers agree. A sweep of 2^47 samples costs less than 2^80.
struct Cost {
  std::uint32_t per_sample = 1;
  bool is_quadratic = false;  // and 1 for any two samples, as attention has it

  uint128 operator()(std::uint32_t size) const noexcept {
    return uint128{size} * (std::uint64_t{per_sample} + (is_quadratic ? size : 0));
  }

  bool operator==(const Cost&) const = default;
};

}  // namespace sweephand
