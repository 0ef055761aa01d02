// Integers mixed with a full avalanche, scaled without a division, and added without a silent
// wrap.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <stdexcept>

namespace sweephand {

__extension__ using uint128 = unsigned __int128;

// 2^64 divided by the golden ratio: the step that makes successive counters far apart.
inline constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15;

// A bijection of 64 bits in which every input bit changes every output bit with probability one
// half: the finalizer of splitmix64 (Steele, Lea and Flood 2014, "Fast splittable pseudorandom
// number generators"). mix64(0) is 0.
constexpr std::uint64_t mix64(std::uint64_t x) noexcept {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9;
  x ^= x >> 27;
  x *= 0x94d049bb133111eb;
  x ^= x >> 31;
  return x;
}

// One key from several words, each of which changes all of it; their order counts.
constexpr std::uint64_t derive_key(std::span<const std::uint64_t> words) noexcept {
  std::uint64_t key = 0;
  std::uint64_t salt = 0;
  for (const std::uint64_t word : words) {
    salt += kGolden;
    key = mix64(key ^ mix64(word + salt));
  }
  return key;
}

constexpr std::uint64_t derive_key(std::initializer_list<std::uint64_t> words) noexcept {
  return derive_key(std::span(words.begin(), words.size()));
}

// The high half of `random64 * bound`: 64 random bits brought into [0, bound), and 0 if bound
// is 0.
constexpr std::uint64_t scale(std::uint64_t random64, std::uint64_t bound) noexcept {
  return static_cast<std::uint64_t>((static_cast<uint128>(random64) * bound) >> 64);
}

// `a + b`, or std::overflow_error if it needs more than 64 bits.
constexpr std::uint64_t checked_add(std::uint64_t a, std::uint64_t b) {
  std::uint64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum)) throw std::overflow_error("sum exceeds 64 bits");
  return sum;
}

// `a * b`, or std::overflow_error if it needs more than 64 bits.
constexpr std::uint64_t checked_mul(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) {
    throw std::overflow_error("product exceeds 64 bits");
  }
  return product;
}

// a / b, rounded up. REQUIRES: b > 0
constexpr std::uint64_t divide_up(std::uint64_t a, std::uint64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

}  // namespace sweephand
