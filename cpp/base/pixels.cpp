#include "base/pixels.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

namespace sweephand {
namespace {

constexpr std::size_t kPixel = 4;  // bytes from one pixel of Pillow's to the next
constexpr std::ptrdiff_t kStep = kPixel;
constexpr std::size_t kBlock = 256;  // pixels turned around at a time

// The three planes that a row of pixels goes to.
struct Rows {
  std::byte* red;
  std::byte* green;
  std::byte* blue;
};

// The compiler vectorises this: pointers are restricted and the step is known.
void split(const std::byte* __restrict from, std::size_t count, std::byte* __restrict red,
           std::byte* __restrict green, std::byte* __restrict blue) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    red[i] = from[kPixel * i];
    green[i] = from[kPixel * i + 1];
    blue[i] = from[kPixel * i + 2];
  }
}

// The pixels from `last` on, leftwards.
void split_mirrored(const std::byte* last, std::size_t count, const Rows& to) noexcept {
  std::array<std::uint32_t, kBlock> turned;
  for (std::size_t done = 0; done < count; done += kBlock) {
    const std::size_t size = std::min(kBlock, count - done);
    const std::byte* const from = last - kPixel * (done + size - 1);
    for (std::size_t i = 0; i < size; ++i)
      std::memcpy(&turned[i], from + kPixel * (size - 1 - i), kPixel);
    split(reinterpret_cast<const std::byte*>(turned.data()), size, to.red + done,
          to.green + done, to.blue + done);
  }
}

// Three of the four bytes of every pixel.
void pack(const std::byte* from, std::size_t count, std::byte* out) noexcept {
  for (std::size_t i = 0; i + 1 < count; ++i)  // the next pixel overwrites the fourth byte
    std::memcpy(out + 3 * i, from + kPixel * i, kPixel);
  if (count > 0) std::memcpy(out + 3 * (count - 1), from + kPixel * (count - 1), 3);
}

template <std::size_t Bytes>
void copy_elements(const std::byte* from, std::ptrdiff_t step, std::size_t count,
                   std::byte* out, std::size_t out_step) noexcept {
  for (std::size_t i = 0; i < count; ++i) {
    std::memcpy(out, from, Bytes);
    from += step;
    out += out_step;
  }
}

void copy_any(const std::byte* from, std::ptrdiff_t step, std::size_t count, std::byte* out,
              std::size_t out_step, std::size_t element_bytes) noexcept {
  switch (element_bytes) {
    case 1:
      copy_elements<1>(from, step, count, out, out_step);
      break;
    case 2:
      copy_elements<2>(from, step, count, out, out_step);
      break;
    case 4:
      copy_elements<4>(from, step, count, out, out_step);
      break;
    case 8:
      copy_elements<8>(from, step, count, out, out_step);
      break;
    default:
      for (std::size_t i = 0; i < count; ++i) {
        std::memcpy(out + i * out_step, from, element_bytes);
        from += step;
      }
  }
}

bool is_of_pillow(const Pixels& pixels) noexcept {
  return pixels.element_bytes == 1 && pixels.channels == 3 && pixels.channel_step == 1;
}

const std::byte* row_of(const Pixels& pixels, std::size_t row) noexcept {
  return pixels.first + static_cast<std::ptrdiff_t>(row) * pixels.row_step;
}

}  // namespace

void copy_planes(const Pixels& pixels, std::byte* out) noexcept {
  const std::size_t row_bytes = pixels.width * pixels.element_bytes;
  const std::size_t plane_bytes = pixels.height * row_bytes;
  const bool is_known = is_of_pillow(pixels);
  for (std::size_t row = 0; row < pixels.height; ++row) {
    const std::byte* from = row_of(pixels, row);
    std::byte* const to = out + row * row_bytes;
    const Rows rows{.red = to, .green = to + plane_bytes, .blue = to + 2 * plane_bytes};
    if (is_known && pixels.column_step == kStep) {
      split(from, pixels.width, rows.red, rows.green, rows.blue);
    } else if (is_known && pixels.column_step == -kStep) {
      split_mirrored(from, pixels.width, rows);
    } else {
      for (std::size_t channel = 0; channel < pixels.channels; ++channel) {
        copy_any(from, pixels.column_step, pixels.width, to + channel * plane_bytes,
                 pixels.element_bytes, pixels.element_bytes);
        from += pixels.channel_step;
      }
    }
  }
}

void copy_packed(const Pixels& pixels, std::byte* out) noexcept {
  const std::size_t pixel_bytes = pixels.channels * pixels.element_bytes;
  for (std::size_t row = 0; row < pixels.height; ++row) {
    const std::byte* from = row_of(pixels, row);
    std::byte* const to = out + row * pixels.width * pixel_bytes;
    if (is_of_pillow(pixels) && pixels.column_step == kStep) {
      pack(from, pixels.width, to);
      continue;
    }
    for (std::size_t channel = 0; channel < pixels.channels; ++channel) {
      copy_any(from, pixels.column_step, pixels.width, to + channel * pixels.element_bytes,
               pixel_bytes, pixels.element_bytes);
      from += pixels.channel_step;
    }
  }
}

}  // namespace sweephand
