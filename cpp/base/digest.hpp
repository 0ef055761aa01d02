// A fast 128-bit digest of content, for fingerprints; equal on every platform, not
// cryptographic.
//
//   bytes    | 32-byte stripe | 32-byte stripe | ... | tail, zero-padded to 32 bytes (if any) |
//   stripe   | w0 | w1 | w2 | w3 |           four little-endian 64-bit words, word i to lane i
//
// Lane i starts as mix64(i + 1). A word w makes it
//   lane = rotate_left(lane + w * 0x9e3779b97f4a7c15, 31) * 0xbf58476d1ce4e5b9   (mod 2^64)
// which is one-to-one in w and in the lane, so that one changed word always changes the digest.
// With n the number of bytes, the two halves of the result are
//   derive_key({0, lane 0, lane 1, lane 2, lane 3, n}) and derive_key({1, ..., n}).
// Only the concatenation of all updates counts: callers that digest several lists must digest
// their lengths, too.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sweephand {

class Digest {
 public:
  Digest() noexcept;

  void update(std::span<const std::byte> bytes) noexcept;

  // The words as little-endian bytes.
  void update(std::span<const std::uint64_t> words) noexcept;

  // 32 hexadecimal digits of all bytes so far; more updates may follow.
  std::string hex() const;

 private:
  std::array<std::uint64_t, 4> lanes_;
  std::array<std::byte, 32> tail_{};  // begins with the bytes that fill no stripe yet
  std::uint64_t num_bytes_ = 0;
};

}  // namespace sweephand
