// Integers in few bytes, of an index: most are small, or rise by small steps.
//
//   bytes():  | head of block 0 | head of block 1 | ... | values of block 0 | of block 1 | ...
//   | head:     | u64 first | u64 base | u64 256 * place + 16 * rises + width |
//
// A block is 256 values, the last one may be shorter; each value has `width` bytes, from byte
// `place` of all values on. It denotes base + its bytes; in a block that rises this is added to
// the previous value, or to `first`. Little endian, and all sums wrap at 2^64.
#pragma once

#include "index/sizes.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

class PackedIntegers {
 public:
  static constexpr std::size_t kBlock = 256;

  PackedIntegers() = default;

  // From the bytes() of `count` values; `owner`, which is not null, keeps them alive. Throws
  // std::invalid_argument when the bytes are impossible.
  PackedIntegers(std::span<const std::byte> bytes, std::uint64_t count,
                 std::shared_ptr<const void> owner);

  std::uint64_t size() const noexcept { return count_; }

  // REQUIRES: there is an i-th one
  std::uint64_t operator[](std::uint64_t i) const;

  // REQUIRES: they were not made of bytes
  void push_back(std::uint64_t value) {
    waiting_.push_back(value);
    ++count_;
    if (waiting_.size() == kBlock) close_block();
  }

  // Adds those of another, and `base` to each.
  void append(const PackedIntegers& more, std::uint64_t base);

  // Values [first, first + out.size()), cut to the width of T. Throws std::out_of_range when
  // there are fewer.
  template <class T>
  void read(std::uint64_t first, std::span<T> out) const;

  std::vector<std::uint8_t> bytes() const;

  // Values that are mostly asked for one after the other.
  class Walk {
   public:
    // `packed` must outlive it, and not change.
    explicit Walk(const PackedIntegers& packed) : packed_(packed) {}

    // REQUIRES: there is an i-th one
    std::uint64_t operator[](std::uint64_t i) {
      if (i / kBlock != block_) load(i / kBlock);
      return values_[i % kBlock];
    }

   private:
    void load(std::uint64_t block);

    const PackedIntegers& packed_;
    std::uint64_t block_ = ~std::uint64_t{0};  // none
    std::array<std::uint64_t, kBlock> values_{};
  };

 private:
  struct Head {
    std::uint64_t first = 0;
    std::uint64_t base = 0;
    std::uint64_t where = 0;

    std::uint64_t place() const noexcept { return where >> 8U; }
    bool rises() const noexcept { return (where & 16U) != 0; }
    unsigned width() const noexcept { return static_cast<unsigned>(where & 15U); }
  };
  using Values = std::array<std::uint64_t, kBlock>;

  void close_block();
  static Head add_block(std::span<const std::uint64_t> values, std::vector<std::byte>& packed);
  Head head(std::uint64_t block) const noexcept;
  std::span<const std::byte> packed() const noexcept;
  void read_block(std::uint64_t block, std::size_t first, std::size_t end, Values& out) const;

  std::uint64_t count_ = 0;
  std::vector<Head> heads_;             // of whole blocks that were pushed
  std::vector<std::byte> packed_;       // their values
  std::vector<std::uint64_t> waiting_;  // what no block has yet
  std::span<const std::byte> given_;    // all of it, where it was made of bytes
  std::shared_ptr<const void> owner_;
};

// In four bytes each, as planning asks for them in any order; a common one where all are equal.
std::shared_ptr<Sizes> unpack_sizes(const PackedIntegers& packed);

}  // namespace sweephand
