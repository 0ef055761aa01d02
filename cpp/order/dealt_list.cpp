#include "order/dealt_list.hpp"

#include "base/search.hpp"
#include "order/permutation.hpp"

#include <algorithm>

namespace sweephand {

DealtList::DealtList(std::uint64_t size, std::uint64_t key, std::uint64_t num_samples)
    : items_(size), starts_((size + kStride - 1) / kStride + 1), key_(key), left_(size) {
  starts_.back() = num_samples;
}

void DealtList::set_sizes(std::uint64_t rank, std::span<const std::uint32_t> sizes) noexcept {
  std::uint64_t* const items = items_.data() + rank;
  for (std::size_t i = 0; i < sizes.size(); ++i) items[i] = (rank + i) << 32U | sizes[i];
}

void DealtList::deal_down_to(std::uint64_t place) {
  while (left_ > place) {
    const std::uint64_t end = left_;
    const std::uint64_t stride = (end - 1) / kStride;
    FisherYates<std::uint64_t> deal({items_.data(), end}, key_);
    deal.deal_down_to(stride * kStride);
    left_ = deal.left();
    std::uint64_t start = starts_[stride + 1];
    for (std::uint64_t i = left_; i < end; ++i) start -= size_of(items_[i]);
    starts_[stride] = start;
  }
}

BlockPlace DealtList::first_at_or_after(std::uint64_t sample) {
  if (sample >= starts_.back()) return {.place = size(), .start = starts_.back()};
  while (left_ != 0 && (left_ == size() || starts_[left_ / kStride] > sample))
    deal_down_to(left_ - 1);
  const std::uint64_t stride = left_ / kStride;
  const std::span known = std::span(starts_).subspan(stride);
  const std::uint64_t found = stride + last_at_or_before(known, sample);
  BlockPlace place{.place = found * kStride, .start = starts_[found]};
  // To the end if the sizes have changed since.
  while (place.start < sample && place.place < size())
    place.start += size_of(items_[place.place++]);
  return place;
}

BlockPlace DealtList::find(std::uint64_t rank) {
  deal_down_to(0);
  const auto found = std::ranges::find(items_, rank, rank_of);
  const auto place = static_cast<std::uint64_t>(found - items_.begin());
  std::uint64_t start = starts_[place / kStride];
  for (std::uint64_t i = place / kStride * kStride; i < place; ++i) start += size_of(items_[i]);
  return {.place = place, .start = start};
}

}  // namespace sweephand
