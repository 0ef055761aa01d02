// A chunk in a single piece of memory, which other processes can map.
//
//   magic 8 | columns 8 | sequences 8 | bytes 8 | a head for each column | arrays, each at a
//   multiple of 64: values, sample offsets, element offsets, indices of one column after
//   another
#pragma once

#include "read/column.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sweephand {

// The bytes of a packed chunk; 0 if it cannot be packed: values are in files, or sequences are
// skipped, which must be reported once for each process.
std::uint64_t packed_bytes(const Chunk& chunk);

// REQUIRES: out.size() == packed_bytes(chunk) > 0
void pack(const Chunk& chunk, std::span<std::byte> out);

// The chunk that was packed, without a copy: `owner` keeps the memory. Throws
// std::invalid_argument when it is no such memory.
std::shared_ptr<Chunk> unpack(std::span<const std::byte> packed,
                              std::shared_ptr<const void> owner);

}  // namespace sweephand
