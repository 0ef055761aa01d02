#include "compose/bans.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sweephand {

Bans::Bans(std::size_t num_sequences)
    : may_hold_(num_sequences / (kWordBits / 16) + 1),
      slots_(num_sequences + num_sequences / 8 + 1),
      room_(num_sequences) {}

std::size_t Bans::bit_of(std::uint64_t mixed) const noexcept {
  return scale(mixed, kWordBits * may_hold_.size());
}

// The slot of the sequence, or the free slot for it.
std::size_t Bans::slot_of(std::uint64_t sequence, std::uint64_t mixed) const noexcept {
  std::size_t slot = scale(mixed, slots_.size());
  while (slots_[slot] != 0 && slots_[slot] >> kTimeBits != sequence) {
    if (++slot == slots_.size()) slot = 0;
  }
  return slot;
}

void Bans::add(std::uint64_t at, std::span<const std::uint64_t> sequences) {
  if (!times_.empty() && at < times_.back()) {
    throw std::invalid_argument("the times of bans must ascend, got " + std::to_string(at) +
                                " behind " + std::to_string(times_.back()));
  }
  if (times_.size() == kMostTimes || sequences.size() > room_) {
    throw std::invalid_argument("there is no room for " + std::to_string(sequences.size()) +
                                " more bans, or for another time of them");
  }
  times_.push_back(at);
  room_ -= sequences.size();
  for (const std::uint64_t sequence : sequences) {
    if (sequence >= kMostSequences)
      throw std::invalid_argument("there is no sequence " + std::to_string(sequence));
    const std::uint64_t mixed = mix64(sequence);
    std::uint64_t& slot = slots_[slot_of(sequence, mixed)];
    if (slot == 0) slot = sequence << kTimeBits | times_.size();
    const std::size_t bit = bit_of(mixed);
    may_hold_[bit / kWordBits] |= std::uint64_t{1} << bit % kWordBits;
  }
}

std::vector<std::size_t> Bans::among(std::span<const PlannedSequence> sequences,
                                     std::uint64_t begin,
                                     std::span<const std::uint64_t> times) const {
  // In a large table each look waits for memory, unless it was prefetched.
  constexpr std::size_t kAhead = 32;
  const auto ask = [&](std::size_t j) {
    __builtin_prefetch(&may_hold_[bit_of(mix64(sequences[j].sequence)) / kWordBits]);
  };
  for (std::size_t j = 0; j < std::min(kAhead, sequences.size()); ++j) ask(j);
  std::vector<std::size_t> found(sequences.size());
  std::size_t count = 0;
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    if (j + kAhead < sequences.size()) ask(j + kAhead);
    const std::uint64_t mixed = mix64(sequences[j].sequence);
    const std::size_t bit = bit_of(mixed);
    // Without a branch, which would be unpredictable.
    const std::uint64_t may_be = may_hold_[bit / kWordBits] >> bit % kWordBits & 1;
    found[count] = j;
    count += may_be;
    __builtin_prefetch(&slots_[may_be * scale(mixed, slots_.size())]);
  }
  found.resize(count);
  std::erase_if(found, [&](std::size_t j) {
    return !hold(sequences[j].sequence, times.empty() ? begin : times[j]);
  });
  return found;
}

bool Bans::hold(std::uint64_t sequence, std::uint64_t time) const noexcept {
  const std::uint64_t mixed = mix64(sequence);
  const std::size_t bit = bit_of(mixed);
  if ((may_hold_[bit / kWordBits] >> bit % kWordBits & 1) == 0) return false;
  const std::uint64_t found = slots_[slot_of(sequence, mixed)];
  if (found == 0) return false;
  const std::uint64_t number = found & ((std::uint64_t{1} << kTimeBits) - 1);
  return times_[number - 1] <= time;
}

}  // namespace sweephand
