// Feature files of HTK (the HTK Book, "HTK Format Parameter Files").
//
//   int32 frames | int32 period, in 100 ns | int16 bytes of a frame | int16 kind
//   [compressed: float32 a[dimension] | float32 b[dimension]]
//   frame | frame | ... [| uint16 checksum]
//
// Written big-endian, or in the machine's order. A value is a float32, or, compressed, an int16
// that denotes (value + b) / a; the header then counts a and b as four frames.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kHtkHeaderBytes = 12;

struct HtkHeader {
  bool is_big_endian = true;
  bool is_compressed = false;
  std::uint64_t num_frames = 0;
  std::uint64_t period = 0;  // in 100 ns
  std::uint64_t frame_bytes = 0;
  std::uint64_t dimension = 0;
  std::uint64_t begin = 0;  // of the first frame
  std::uint16_t kind = 0;
};

// The header of a file of `file_bytes`, whose size also determines its byte order. Throws
// DataError when header and size do not match in either order, or the file holds no frames of
// floats.
HtkHeader parse_htk_header(std::span<const std::byte> head, std::uint64_t file_bytes);

// How frames are stored.
struct HtkCoding {
  bool is_big_endian = true;
  std::uint64_t dimension = 0;
  std::vector<float> scale;  // a and b, one behind the other; empty of what is not compressed
};

// The vectors a and b of a compressed file.
std::vector<float> read_htk_scale(std::span<const std::byte> bytes, bool is_big_endian);

// The frames of consecutive sequences of `lengths` in `bytes`, each between `left` frames
// before it and `right` after it. At the ends of a sequence its first or last frame is
// repeated. Throws std::invalid_argument when the bytes have another length.
std::vector<float> read_htk_frames(std::span<const std::byte> bytes, const HtkCoding& coding,
                                   std::span<const std::int64_t> lengths, std::uint64_t left,
                                   std::uint64_t right);

}  // namespace sweephand
