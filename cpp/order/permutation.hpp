// A bijection of [0, size), by a key: docs/order.md, section 2.
#pragma once

#include "base/mix.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// A Fisher-Yates shuffle, done only as far as needed: docs/order.md, section 2.
// Deals items from the last place down: dealt places are final, and the rest is in no order
// yet.
template <class Item>
class FisherYates {
 public:
  FisherYates(std::span<Item> items, std::uint64_t key)
      : items_(items), key_(key), left_(items.size()) {}

  // Places from here on were dealt.
  std::size_t left() const noexcept { return left_; }

  // REQUIRES: place <= left()
  void deal_down_to(std::size_t place) noexcept {
    for (std::size_t i = left_; i-- > place;) {
      std::swap(items_[i], items_[scale(mix64(key_ + kGolden * i), i + 1)]);
    }
    left_ = place;
  }

 private:
  std::span<Item> items_;
  std::uint64_t key_;
  std::size_t left_;
};

// A bijection of [0, size) that stores no item: docs/order.md, section 2.
// A Feistel network over a square of side * side >= size words, repeated until the result is
// below size. A round shifts one half by a function of the other one, and a half has only
// `side` values: up to 2^32 words the shifts are looked up, 16 bytes for each value.
class Feistel {
 public:
  // REQUIRES: 0 < size <= 2^62
  Feistel(std::uint64_t size, std::uint64_t key);

  // Writes the items of words [first, first + out.size()). REQUIRES: first + out.size() <=
  // size
  void encrypt(std::uint64_t first, std::span<std::uint64_t> out) const;

  // Writes the words of items [first, first + out.size()). REQUIRES: as encrypt
  void decrypt(std::uint64_t first, std::span<std::uint64_t> out) const;

 private:
  struct Computed;
  struct Looked;

  template <class Step>
  void walk(std::uint64_t first, std::span<std::uint64_t> out, const Step& step) const;
  template <class Shift, class Step>
  void walk(std::uint64_t first, std::span<std::uint64_t> out, const Shift& shift,
            const Step& step) const;

  std::uint64_t size_;
  std::uint64_t side_;  // the smallest integer whose square is at least size
  std::array<std::uint64_t, 8> keys_{};
  std::vector<std::uint16_t> shifts_;  // side_ of them for each round; none for a large side
};

// By a key, up to kTableSize places it is Fisher-Yates in a table of 4 bytes per place; beyond,
// a Feistel network.
class Permutation {
 public:
  static constexpr std::uint64_t kTableSize = std::uint64_t{1} << 20;

  // REQUIRES: size <= 2^62
  Permutation(std::uint64_t size, std::uint64_t key);

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
