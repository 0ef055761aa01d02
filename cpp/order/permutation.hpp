// A keyed bijection of [0, size): docs/order.md, section 2.
#pragma once

#include "order/feistel.hpp"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// Up to kTableSize places it is Fisher-Yates in a table of 4 bytes per place; beyond, a Feistel
// network.
class Permutation {
 public:
  static constexpr std::uint64_t kTableSize = std::uint64_t{1} << 20;

  // REQUIRES: size <= 2^62
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const noexcept { return size_; }

  // Items are stored by place: places() is not to be had, and place() is linear in size().
  bool is_table() const noexcept { return !network_; }

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
