// Plans one minibatch after the other along a timeline.
#pragma once

#include "compose/plan.hpp"

#include <cstdint>
#include <limits>
#include <vector>

namespace sweephand {

// The most cells of a share of rows: their boundaries are int32.
inline constexpr std::uint64_t kMaxCells = (std::uint64_t{1} << 31) - 1;

// Where a timeline without an end ends.
constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

// One layout's way of composing minibatches. A place is one integer: seek(t) and repeated
// next() give the same as planning from 0 with the same requests.
class Planner {
 public:
  Planner() = default;
  Planner(const Planner&) = delete;
  Planner& operator=(const Planner&) = delete;
  virtual ~Planner() = default;

  // Goes to the first place at or after `time`.
  virtual void seek(std::uint64_t time) = 0;

  // Goes to where a plan said that the next one begins. Throws std::invalid_argument when no
  // plan says so.
  virtual void resume(const Position& position);

  // Where the next minibatch begins. After seek in a layout whose minibatches depend on the
  // size, it is the first place at or after the target, which the size determines.
  virtual std::uint64_t time() const = 0;

  // Throws std::invalid_argument when the request cannot be shared as asked; the place stays.
  virtual Plan next(const Request& request) = 0;

  // Nominal time at which `sequence` begins in sweep `sweep`, when all minibatches are of
  // `num_samples` samples; most layouts do not depend on that. May be called while another
  // thread plans. REQUIRES: the corpus has it
  virtual std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                             std::uint64_t num_samples) const = 0;

  // The numbers of the sequences that begin in [start, stop) of nominal time, in that order.
  // As find.
  virtual std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                                  std::uint64_t num_samples) const = 0;

  // The first place at or after `time` before which nothing depends on anything after it. As
  // find.
  virtual std::uint64_t boundary(std::uint64_t time) const { return time; }
};

// The next plan of a planner, for callers that do not execute it.
Plan plan_only(Planner& planner, Request request);

// The result of sequences_in, found by planning minibatch after minibatch. REQUIRES: the
// planner is at or before the minibatch of the first of them
std::vector<std::uint64_t> plan_sequences_in(Planner& planner, std::uint64_t start,
                                             std::uint64_t stop, std::uint64_t num_samples);

// Throws std::invalid_argument when a request makes no sense in any layout.
void check(const Request& request);

}  // namespace sweephand
