// BLAKE2b as RFC 7693 defines it, without a key: a cryptographic hash, equal to hashlib's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

class Blake2b {
 public:
  // REQUIRES: digest_bytes is 8 to 64; it is part of the hashed input
  explicit Blake2b(std::size_t digest_bytes) noexcept;

  void update(std::span<const std::byte> bytes) noexcept;

  // The same of eight little-endian bytes.
  void update_le64(std::uint64_t word) noexcept;

  // The first eight bytes of the digest, as a little-endian integer. Nothing may follow.
  std::uint64_t finish() noexcept;

 private:
  static constexpr std::size_t kBlockBytes = 128;
  using Block = std::span<const std::byte, kBlockBytes>;

  void compress(Block block, bool is_last) noexcept;

  std::array<std::uint64_t, 8> state_;
  std::array<std::byte, kBlockBytes> tail_{};  // begins with the bytes not compressed yet
  std::size_t filled_ = 0;
  std::uint64_t num_bytes_ = 0;  // compressed; nobody has more than 2^64 of them
};

}  // namespace sweephand
