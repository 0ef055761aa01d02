// The delivered part of a global minibatch, as far as its plan determines it.
#pragma once

#include "compose/bans.hpp"
#include "compose/plan.hpp"
#include "index/loss_masks.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

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
        const std::uint64_t end = std::uint64_t{first} + size;
        count_.own_labels += masks_->count(sequence, std::uint64_t{first} + 1, end);
        count_.labels +=
            masks_->count(sequence, std::uint64_t{first} + 1, end + (ends ? 0 : 1));
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
