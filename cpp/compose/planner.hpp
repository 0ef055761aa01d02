// Plans one minibatch after the other along a timeline.
#pragma once

#include "compose/plan.hpp"

#include <cstdint>

namespace sweephand {

// One layout's way of composing minibatches. A place is one integer: seek(t) and next() again
// and again give the same as planning from 0.
class Planner {
 public:
  Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  virtual ~Planner() = default;

  // Goes to the first place at or after `time`.
  virtual void seek(std::uint64_t time) = 0;

  // Where the next minibatch begins.
  virtual std::uint64_t time() const = 0;

  // Throws std::invalid_argument when the request cannot be shared as asked; the place stays.
  virtual Plan next(const Request& request) = 0;
};

}  // namespace sweephand
