// How much of a global minibatch is delivered, as far as its plan knows.
#pragma once

#include "compose/bans.hpp"
#include "compose/plan.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// Counts the pieces of a global minibatch, in the order of nominal time, but for those that are
// banned when they begin.
class PieceCounter {
 public:
  PieceCounter(const Bans* bans, std::uint64_t time) : bans_(bans), time_(time) {}

  // `ends` says that the sequence has no sample after the piece.
  void add(std::uint64_t sequence, std::uint32_t size, bool ends) {
    if (bans_ == nullptr || !bans_->hold(sequence, time_)) {
      count_.samples += size;
      ++count_.pieces;
      count_.ends += ends ? 1 : 0;
    }
    time_ += size;
  }

  // Nominal time of the next piece.
  std::uint64_t time() const noexcept { return time_; }

  const PieceCount& count() const noexcept { return count_; }

 private:
  const Bans* bans_;
  std::uint64_t time_;
  PieceCount count_;
};

// Whole sequences; without bans nothing is looked at. `plan` knows when they begin and how many
// samples they have.
inline PieceCount count_sequences(std::span<const PlannedSequence> minibatch, const Bans* bans,
                                  const Plan& plan) {
  if (bans == nullptr) return {plan.num_samples, minibatch.size(), minibatch.size()};
  PieceCounter counter(bans, plan.nominal_time);
  for (const PlannedSequence& one : minibatch) counter.add(one.sequence, one.size, true);
  return counter.count();
}

}  // namespace sweephand
