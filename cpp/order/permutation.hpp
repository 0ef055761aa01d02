// A bijection of [0, size), by a key or as given: docs/order.md, section 2.
#pragma once

#include "order/feistel.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// By a key, up to kTableSize places it is Fisher-Yates in a table of 4 bytes per place; beyond,
// a Feistel network.
class Permutation {
 public:
  static constexpr std::uint64_t kTableSize = std::uint64_t{1} << 20;

  // REQUIRES: size <= 2^62
  Permutation(std::uint64_t size, std::uint64_t key);

  // The items by place, as something else has put them.
  explicit Permutation(std::vector<std::uint32_t> items)
      : size_(items.size()), table_(std::move(items)) {}

  std::uint64_t size() const noexcept { return size_; }

  // Items are stored by place: places() is not to be had, and place() is linear in size().
  bool is_table() const noexcept { return !network_; }

  // Prefetches the memory that fill(place) reads first. REQUIRES: place < size()
  void fetch(std::uint64_t place) const noexcept {
    if (!network_) __builtin_prefetch(table_.data() + place);
  }

  // Writes the items of places [first, first + out.size()). REQUIRES: first + out.size() <=
  // size()
  void fill(std::uint64_t first, std::span<std::uint64_t> out) const;

  // Writes the places of items [first, first + out.size()). REQUIRES: first + out.size() <=
  // size(), !is_table()
  void places(std::uint64_t first, std::span<std::uint64_t> out) const;

  // The item of one place. REQUIRES: place < size()
  std::uint64_t item(std::uint64_t place) const;

  // The place of one item. REQUIRES: item < size()
  std::uint64_t place(std::uint64_t item) const;

 private:
  std::uint64_t size_;
  std::vector<std::uint32_t> table_;
  std::optional<Feistel> network_;
};

}  // namespace sweephand
