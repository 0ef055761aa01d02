// The pixels of a picture at any strides, copied to a contiguous array.
//
//   Pillow's      r g b x r g b x | ...       pixels of four bytes, rows behind each other
//   a crop of it      r g b x ... | ...       begins later, and leaves out the ends of rows
//   mirrored          ... x b g r | ...       begins at the end: a step to the left is negative
//   planes        r r r ... g g g ... b b b   channel by channel
//   packed        r g b r g b ...             pixel by pixel
#pragma once

#include <cstddef>

namespace sweephand {

// The places of a picture's elements: that of (row, column, channel) is row * row_step + column
// * column_step + channel * channel_step bytes after `first`.
struct Pixels {
  const std::byte* first = nullptr;
  std::size_t height = 0;
  std::size_t width = 0;
  std::size_t channels = 0;
  std::size_t element_bytes = 1;
  std::ptrdiff_t row_step = 0;
  std::ptrdiff_t column_step = 0;
  std::ptrdiff_t channel_step = 0;
};

// Copies all elements to `out`, which has room for them: (channels, height, width).
void copy_planes(const Pixels& pixels, std::byte* out) noexcept;

// The same: (height, width, channels).
void copy_packed(const Pixels& pixels, std::byte* out) noexcept;

}  // namespace sweephand
