// Digests of names, and the random words that are drawn by them; docs/order.md, "Parts of a
// corpus", defines both.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// FNV-1a of 64 bits (Fowler, Noll and Vo).
constexpr std::uint64_t name_digest(std::span<const std::uint8_t> name,
                                    std::uint64_t begin = 0xcbf29ce484222325) noexcept {
  for (const std::uint8_t byte : name) begin = (begin ^ byte) * 0x100000001b3;
  return begin;
}

// Of the names bytes[offsets[i]..offsets[i + 1]). Throws std::invalid_argument if these are no
// such ranges.
std::vector<std::uint64_t> name_digests(std::span<const std::uint8_t> bytes,
                                        std::span<const std::int64_t> offsets);

// Of `prefix` followed by the decimal digits of 0, 1, ..., count - 1.
std::vector<std::uint64_t> numbered_digests(std::span<const std::uint8_t> prefix,
                                            std::uint64_t count);

// derive_key(seed, digest) of each.
std::vector<std::uint64_t> digest_words(std::span<const std::uint64_t> digests,
                                        std::uint64_t seed);

}  // namespace sweephand
