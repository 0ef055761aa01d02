// The digest of the contents of sequences, independent of the worker: docs/receipts.md,
// "content".
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

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

}  // namespace sweephand
