// Digests of content, of names, and of sequences.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// Digests of names, and the random words that are drawn by them; docs/order.md, "Parts of a
// corpus", defines both.
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

// The digest of the contents of sequences, independent of the worker: docs/receipts.md,
// "content".
// One stream of several sequences: arrays of samples, one after the other.
struct DigestedStream {
  std::string name;
  std::string before;                     // how dtype and shape are written, around the
  std::string after;                      // number of samples
  std::span<const std::byte> values;      // little-endian
  std::span<const std::int64_t> offsets;  // in samples, one more than there are sequences
  std::uint64_t sample_bytes = 0;
};

// Ids and first samples of as many sequences.
struct DigestedNames {
  std::span<const std::byte> bytes;
  std::span<const std::int64_t> offsets;
  std::span<const std::uint64_t> firsts;
};

// The sum modulo 2^64 of the digests of all sequences. Throws std::invalid_argument where
// offsets do not ascend within their array.
std::uint64_t sum_of_digests(const DigestedNames& names,
                             const std::vector<DigestedStream>& streams);

// BLAKE2b as RFC 7693 defines it, without a key: a cryptographic hash, equal to hashlib's.
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
