// Pictures in another size, by the filters of Pillow 13 and to the same bits.
//
// Two passes weigh the pixels that a filter reaches and round to 8 bits: along rows, then along
// columns; or the other way around where that is less work.
#pragma once

#include "base/filter_kernel.hpp"
#include "base/pixels.hpp"

#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

// A part of a picture; its borders may be inside pixels.
struct PictureBox {
  float top = 0;
  float left = 0;
  float bottom = 0;
  float right = 0;
};

struct PictureSize {
  std::size_t height = 0;
  std::size_t width = 0;
};

// Bytes from one pixel to the next in the output of `resize`.
inline constexpr std::size_t kResizedPixel = 4;

// Resizes a part of a picture to `out`: (height, width, kResizedPixel), of which the first
// channels are those of the picture. Pixels outside the part, but within the picture, count
// where a filter reaches them. REQUIRES: elements of one byte, at most kResizedPixel channels;
// the box is within the picture and is not empty, nor is the new size
void resize(const Pixels& pixels, const PictureBox& box, Filter filter, const PictureSize& size,
            std::byte* out);

// Consecutive rows that are summed by weights. After the last one there is room for a tile.
struct WeighedRows {
  static constexpr std::size_t kTile = 16;  // bytes that are looked at together

  const std::uint8_t* first;
  std::size_t row_bytes;
  std::span<const std::int32_t> weights;
};

}  // namespace sweephand
