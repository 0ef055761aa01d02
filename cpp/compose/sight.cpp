#include "compose/sight.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

// Places by ascending size, those of equal size in the order of the list: a radix sort, in as
// few passes as digits of 11 bits allow.
std::vector<std::uint32_t> by_size(std::span<const std::uint32_t> sizes) {
  const std::uint32_t largest = *std::ranges::max_element(sizes);
  const auto width = static_cast<unsigned>(std::bit_width(largest | 1));
  const unsigned passes = (width + 10) / 11;
  const unsigned bits = (width + passes - 1) / passes;
  const std::uint32_t mask = (1U << bits) - 1;
  std::vector<std::uint32_t> places(sizes.size());
  std::vector<std::uint32_t> sorted(sizes.size());
  std::iota(places.begin(), places.end(), 0U);
  for (unsigned shift = 0; shift < width; shift += bits) {
    std::vector<std::uint32_t> next(std::size_t{mask} + 2);
    for (const std::uint32_t size : sizes) ++next[(size >> shift & mask) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const std::uint32_t place : places) {
      sorted[next[sizes[place] >> shift & mask]++] = place;
    }
    std::swap(places, sorted);
  }
  return places;
}

}  // namespace

BitTree::BitTree(std::size_t size) {
  do {
    size = (size + 63) / 64;
    levels_.emplace_back(size);
  } while (size > 1);
}

Sight::Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length)
    : places_(by_size(sizes)),
      ranks_(sizes.size()),
      taken_(sizes.size()),
      sizes_(std::min<std::size_t>(sizes.size(), row_length)),
      next_(sizes_.size() + 1) {
  std::uint32_t rank = 0;
  for (std::uint32_t i = 0; i < places_.size(); ++i) {
    const std::uint32_t size = sizes[places_[i]];
    rank += i > 0 && size != sizes_[rank];
    sizes_[rank] = size;
    next_[rank + 1] = i + 1;  // until the rank's last sequence is met
    ranks_[places_[i]] = rank;
  }
  sizes_.resize(rank + 1);
  in_sight_.resize(sizes_.size());
  tree_ = BitTree(sizes_.size() + 1);
  while (row_length >> shift_ > 4 * sizes_.size()) ++shift_;
  ranks_below_.resize((row_length >> shift_) + 2);
  for (const std::uint32_t size : sizes_) ++ranks_below_[(size >> shift_) + 1];
  std::partial_sum(ranks_below_.begin(), ranks_below_.end(), ranks_below_.begin());
}

}  // namespace sweephand
