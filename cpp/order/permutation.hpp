// A keyed bijection of [0, size): docs/order.md, section 2.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Up to kTableSize places it is Fisher-Yates in a table of 4 bytes per place; beyond, a Feistel
// network that stores nothing.
class Permutation {
 public:
  static constexpr std::uint64_t kTableSize = std::uint64_t{1} << 20;

  // REQUIRES: size <= 2^62
  Permutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const noexcept { return size_; }

  // Writes the items of places [first, first + out.size()). REQUIRES: first + out.size() <=
  // size()
  void fill(std::uint64_t first, std::span<std::uint64_t> out) const;

  // The item of one place. REQUIRES: place < size()
  std::uint64_t item(std::uint64_t place) const;

  // The place of one item. Linear in size() for a table, constant beyond. REQUIRES: item <
  // size()
  std::uint64_t place(std::uint64_t item) const;

 private:
  static constexpr int kRounds = 8;

  std::uint64_t walk(std::uint64_t word) const;
  std::uint64_t encrypt(std::uint64_t word) const;
  void encrypt(std::span<std::uint64_t> words) const;
  std::uint64_t decrypt(std::uint64_t word) const;
  std::uint64_t row_of(std::uint64_t word) const;

  std::uint64_t size_;
  std::vector<std::uint32_t> table_;
  std::uint64_t side_ = 0;     // the smallest integer whose square is at least size
  std::uint64_t inverse_ = 0;  // 2^64 / side_, for division by multiplication
  std::array<std::uint64_t, kRounds> keys_{};
};

}  // namespace sweephand
