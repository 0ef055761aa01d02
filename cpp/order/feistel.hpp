// A bijection of [0, size) that stores no item: docs/order.md, section 2.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

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

}  // namespace sweephand
