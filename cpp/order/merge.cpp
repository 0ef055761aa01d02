#include "order/merge.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

namespace sweephand {
namespace {

constexpr unsigned kPlaceBits = 32;

}  // namespace

void Merge::reserve(std::size_t count) {
  if (count <= keys_.size()) return;
  keys_.resize(std::bit_ceil(count));
}

std::size_t Merge::add(std::span<const PlannedSequence> sequences, std::size_t place,
                       std::uint64_t& offset, std::uint64_t begin, std::uint64_t end) {
  reserve(count_ + sequences.size());
  std::uint64_t* const keys = keys_.data() + count_;
  std::uint64_t at = offset;
  std::size_t taken = 0;
  for (; taken < sequences.size() && at < end; ++taken) {
    keys[taken] = (at - begin) << kPlaceBits | (place + taken);
    at += sequences[taken].size;
  }
  offset = at;
  count_ += taken;
  return taken;
}

void Merge::sort(std::span<const PlannedSequence> from, std::vector<PlannedSequence>& sorted) {
  sorted.resize(count_);
  if (count_ == 0) return;
  std::span<const std::uint64_t> keys(keys_.data(), count_);
  if (!std::ranges::is_sorted(keys)) {  // as those of one lane are
    deal();
    keys = std::span(sorted_).first(count_);
  }
  for (std::size_t i = 0; i < count_; ++i)
    sorted[i] = from[static_cast<std::uint32_t>(keys[i])];
  count_ = 0;
}

// Sorts by the highest bits of offsets, enough to separate evenly spread keys, and then the
// keys that are still equal by the remaining bits.
void Merge::deal() {
  const std::span keys(keys_.data(), count_);
  const std::uint64_t most = std::ranges::max(keys);
  const auto wide = static_cast<unsigned>(std::bit_width(most >> kPlaceBits));
  const auto enough = static_cast<unsigned>(std::bit_width(std::uint64_t{count_}));
  const unsigned shift = kPlaceBits + wide - std::min(wide, enough);
  sorted_.resize(std::max(sorted_.size(), count_));
  ends_.assign((most >> shift) + 2, 0);
  std::uint32_t* const ends = ends_.data();
  for (const std::uint64_t key : keys) ++ends[(key >> shift) + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  for (const std::uint64_t key : keys) sorted_[ends[key >> shift]++] = key;
  if (shift == kPlaceBits) return;
  std::size_t begin = 0;
  for (const std::uint32_t end : ends_) {
    if (end > begin + 1) std::ranges::sort(std::span(sorted_).subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace sweephand
