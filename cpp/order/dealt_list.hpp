// The list of a block that is shuffled by a table, dealt only as far as needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// A place in the list of a block, and the samples of the block before it.
struct BlockPlace {
  std::uint64_t place;
  std::uint64_t start;
};

// The shuffle deals from the last place down, and reading on from a place needs none before it:
// a lane in the middle of a block leaves half of it undealt. It holds 8 bytes for each
// sequence.
class DealtList {
 public:
  static constexpr std::uint64_t kStride = 64;  // places that are dealt at once

  // Of no sequence.
  DealtList() = default;

  // `key` is that of the shuffle; the sizes are not there yet.
  DealtList(std::uint64_t size, std::uint64_t key, std::uint64_t num_samples);

  // The sizes of `rank` and the following ranks, in storage order. REQUIRES: nothing is dealt
  void set_sizes(std::uint64_t rank, std::span<const std::uint32_t> sizes) noexcept;

  std::uint64_t size() const noexcept { return items_.size(); }

  // Deals places [place, size()), unless they are. Linear in those that are not.
  void deal_down_to(std::uint64_t place);

  // The items at `count` places from `first` on, which are dealt: see rank_of and size_of.
  // Valid until more is dealt. REQUIRES: first + count <= size()
  std::span<const std::uint64_t> items(std::uint64_t first, std::size_t count) {
    deal_down_to(first);
    return std::span(items_).subspan(first, count);
  }

  // Of an item the rank in storage order, in the high half, and the size, in the low one.
  static std::uint64_t rank_of(std::uint64_t item) noexcept { return item >> 32U; }
  static std::uint32_t size_of(std::uint64_t item) noexcept {
    return static_cast<std::uint32_t>(item);
  }

  // The first place that starts at or after `sample`, and is dealt; {size(), num_samples} if
  // there is none.
  BlockPlace first_at_or_after(std::uint64_t sample);

  // The place of this rank; deals the whole list. Linear. REQUIRES: rank < size()
  BlockPlace find(std::uint64_t rank);

  // Prefetches the memory that is read first at a place.
  void fetch(std::uint64_t place) const noexcept { __builtin_prefetch(items_.data() + place); }

 private:
  std::vector<std::uint64_t> items_;
  std::vector<std::uint64_t> starts_;  // of every kStride-th place that is dealt, and the end
  std::uint64_t key_ = 0;
  std::uint64_t left_ = 0;  // places from here on are dealt
};

}  // namespace sweephand
