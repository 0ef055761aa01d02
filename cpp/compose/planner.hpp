// Plans one minibatch after the other along a timeline.
#pragma once

#include "compose/bans.hpp"
#include "compose/plan.hpp"
#include "index/corpus.hpp"

#include <cstdint>
#include <limits>
#include <span>
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

// Counts the pieces of a global minibatch, in the order of nominal time, except those that are
// banned at their begin.
class PieceCounter {
 public:
  // `masks` may be null: nothing is known of labels.
  PieceCounter(const Bans* bans, const LossMasks* masks, std::uint64_t time)
      : bans_(bans), masks_(masks), time_(time) {}

  // Samples [first, first + size) of a sequence; `ends` says that it has none after these.
  void add(std::uint64_t sequence, std::uint32_t first, std::uint32_t size, bool ends) {
    if (bans_ == nullptr || !bans_->hold(sequence, time_)) {
      count_.samples += size;
      ++count_.pieces;
      count_.ends += ends ? 1 : 0;
      if (masks_ != nullptr) {
        const std::uint64_t begin = std::uint64_t{first} + 1;
        const std::uint64_t end = std::uint64_t{first} + size;
        const std::uint64_t own = masks_->count(sequence, begin, end);
        count_.own_labels += own;
        count_.labels += own + (ends ? 0 : masks_->count(sequence, end, end + 1));
        count_.label_weight += masks_->weigh(sequence, begin, end + (ends ? 0 : 1));
      }
    }
    time_ += size;
  }

  // Nominal time of the next piece.
  std::uint64_t time() const noexcept { return time_; }

  const PieceCount& count() const noexcept { return count_; }

 private:
  const Bans* bans_;
  const LossMasks* masks_;
  std::uint64_t time_;
  PieceCount count_;
};

// Whole sequences; without bans and masks nothing is looked at. `plan` knows when they begin
// and how many samples they have.
inline PieceCount count_sequences(std::span<const PlannedSequence> minibatch, const Bans* bans,
                                  const LossMasks* masks, const Plan& plan) {
  if (bans == nullptr && masks == nullptr)
    return {plan.num_samples, minibatch.size(), minibatch.size()};
  PieceCounter counter(bans, masks, plan.nominal_time);
  for (const PlannedSequence& one : minibatch) counter.add(one.sequence, 0, one.size, true);
  return counter.count();
}

}  // namespace sweephand
