// Chunks of CNTK's binary format (CBF), as its ctf2bin.py writes them; all little-endian.
//
//   file    u64 magic "cntk_bin" | u32 version 1 | chunk | chunk | ... | header | i64 of header
//   header  u64 magic | u32 chunks | u32 streams
//           stream: u8 0 dense, 1 sparse | u32 n | char name[n] | u8 0 float, 1 double
//                   | u32 dimension
//           chunk: i64 offset | u32 sequences | u32 samples
//   chunk   u32 samples of each sequence, in its longest stream
//           of each stream one sequence after the other:
//             dense   u32 samples | values
//             sparse  u32 samples | i32 n | values[n] | i32 indices[n] | i32 counts[samples]
#pragma once

#include "read/column.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

struct CbfStream {
  std::string name;  // for errors
  bool is_sparse = false;
  bool is_double = false;
  bool is_wanted = true;  // others are passed over
  std::uint64_t dimension = 0;
};

// The wanted streams of a chunk that is `bytes`. Throws DataError, with offset and sequence as
// they are in the chunk, when the bytes are not so many sequences.
std::shared_ptr<const Chunk> read_cbf_chunk(std::span<const std::byte> bytes,
                                            std::uint64_t num_sequences,
                                            std::span<const CbfStream> streams);

}  // namespace sweephand
