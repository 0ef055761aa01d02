#include "base/resize.hpp"

#include "base/cpu.hpp"
#include "base/resize_avx2.hpp"

#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

constexpr std::size_t kBytes = kResizedPixel;  // of a pixel, between both passes too

std::uint8_t to_byte(std::int32_t sum) noexcept {
  // NOLINTNEXTLINE(bugprone-signed-bitwise): rounds down, also below 0
  return static_cast<std::uint8_t>(std::clamp(sum >> FilterKernel::kFraction, 0, 255));
}

// Resamples a row of pixels, which is followed by room for all taps.
void weigh_row(const std::uint8_t* row, const FilterKernel& kernel,
               std::uint8_t* out) noexcept {
  const std::int32_t* weights = kernel.weights.data();
  for (const std::size_t first : kernel.first) {
    const std::uint8_t* const from = row + first * kBytes;
    for (std::size_t c = 0; c < kBytes; ++c) {
      std::int32_t sum = FilterKernel::kHalf;
      for (std::size_t t = 0; t < kernel.taps; ++t) sum += from[t * kBytes + c] * weights[t];
      out[c] = to_byte(sum);
    }
    weights += kernel.taps;
    out += kBytes;
  }
}

// The weighted sum of rows.
void weigh_rows(const WeighedRows& rows, std::uint8_t* out) noexcept {
  for (std::size_t i = 0; i < rows.row_bytes; ++i) {
    std::int32_t sum = FilterKernel::kHalf;
    for (std::size_t t = 0; t < rows.weights.size(); ++t)
      sum += rows.first[t * rows.row_bytes + i] * rows.weights[t];
    out[i] = to_byte(sum);
  }
}

// Copies a row, so that its pixels are kBytes apart.
void spread(const Pixels& pixels, std::size_t row, std::uint8_t* out) noexcept {
  const auto* from = reinterpret_cast<const std::uint8_t*>(pixels.first) +
                     static_cast<std::ptrdiff_t>(row) * pixels.row_step;
  if (pixels.channel_step == 1 && std::cmp_equal(pixels.column_step, kBytes)) {
    std::memcpy(out, from, (pixels.width - 1) * kBytes + pixels.channels);
    return;
  }
  if (pixels.channel_step == 1 && pixels.column_step == 3 && pixels.channels == 3) {
    for (std::size_t x = 0; x + 1 < pixels.width; ++x)
      std::memcpy(out + x * kBytes, from + 3 * x, kBytes);  // the extra byte is harmless
    std::memcpy(out + (pixels.width - 1) * kBytes, from + 3 * (pixels.width - 1), 3);
    return;
  }
  for (std::size_t x = 0; x < pixels.width; ++x) {
    for (std::size_t c = 0; c < pixels.channels; ++c)
      out[x * kBytes + c] = from[static_cast<std::ptrdiff_t>(c) * pixels.channel_step];
    from += pixels.column_step;
  }
}

// Rows of pixels of kBytes each, with room after them.
class PixelRows {
 public:
  PixelRows(std::size_t height, std::size_t width, std::size_t room)
      : row_bytes_(width * kBytes), bytes_(height * row_bytes_ + room) {}

  std::size_t row_bytes() const noexcept { return row_bytes_; }
  std::uint8_t* row(std::size_t y) noexcept { return bytes_.data() + y * row_bytes_; }
  const std::uint8_t* row(std::size_t y) const noexcept {
    return bytes_.data() + y * row_bytes_;
  }

 private:
  std::size_t row_bytes_;
  std::vector<std::uint8_t> bytes_;
};

// The pass along rows.
class Across {
 public:
  explicit Across(FilterKernel kernel) : kernel_(std::move(kernel)) {
#ifdef __x86_64__
    if (cpu().avx2) pairs_ = pairs_of(kernel_);
#endif
  }

  // Bytes after a row that are read.
  std::size_t room() const noexcept { return kernel_.taps * kBytes; }

  void make(const std::uint8_t* row, std::uint8_t* out) const noexcept {
#ifdef __x86_64__
    if (cpu().avx2) {
      weigh_row_avx2(row, kernel_, pairs_.data(), out);
      return;
    }
#endif
    weigh_row(row, kernel_, out);
  }

 private:
  FilterKernel kernel_;
  std::vector<std::int16_t> pairs_;
};

// The pass along columns, over rows of which the first is number `first`.
void make_row(const FilterKernel& down, const PixelRows& rows, std::size_t first, std::size_t y,
              std::uint8_t* out) noexcept {
  const std::size_t taps = std::min(down.taps, down.end - down.first[y]);
  const WeighedRows weighed{.first = rows.row(down.first[y] - first),
                            .row_bytes = rows.row_bytes(),
                            .weights = std::span(down.weights).subspan(y * down.taps, taps)};
#ifdef __x86_64__
  if (cpu().avx2) {
    weigh_rows_avx2(weighed, out);
    return;
  }
#endif
  weigh_rows(weighed, out);
}

bool is_whole(float begin, float end, std::size_t from, std::size_t to) noexcept {
  return begin == 0 && end == static_cast<float>(from) && from == to;
}

}  // namespace

void resize(const Pixels& pixels, const PictureBox& box, Filter filter, const PictureSize& size,
            std::byte* out) {
  auto* const made = reinterpret_cast<std::uint8_t*>(out);
  const std::size_t made_bytes = size.width * kBytes;
  const bool keeps_width = is_whole(box.left, box.right, pixels.width, size.width);
  if (is_whole(box.top, box.bottom, pixels.height, size.height)) {
    const Across across(make_kernel(filter, box.left, box.right, pixels.width, size.width));
    PixelRows row(1, pixels.width, across.room());
    for (std::size_t y = 0; y < size.height; ++y) {
      spread(pixels, y, row.row(0));
      if (keeps_width)
        std::memcpy(made + y * made_bytes, row.row(0), made_bytes);
      else
        across.make(row.row(0), made + y * made_bytes);
    }
    return;
  }
  const FilterKernel down =
      make_kernel(filter, box.top, box.bottom, pixels.height, size.height);
  const std::size_t first = down.first.front();
  if (keeps_width) {
    PixelRows rows(down.end - first, pixels.width, WeighedRows::kTile);
    for (std::size_t y = first; y < down.end; ++y) spread(pixels, y, rows.row(y - first));
    for (std::size_t y = 0; y < size.height; ++y)
      make_row(down, rows, first, y, made + y * made_bytes);
    return;
  }
  const Across across(make_kernel(filter, box.left, box.right, pixels.width, size.width));
  // The reduction of the data by each pass decides their order, as in Pillow since version 13.
  const auto lost = [](std::size_t from, std::size_t to) { return from > to ? from - to : 0; };
  if (lost(pixels.height, size.height) > 2 * lost(pixels.width, size.width)) {
    PixelRows rows(down.end - first, pixels.width, WeighedRows::kTile);
    for (std::size_t y = first; y < down.end; ++y) spread(pixels, y, rows.row(y - first));
    PixelRows row(1, pixels.width, across.room());
    for (std::size_t y = 0; y < size.height; ++y) {
      make_row(down, rows, first, y, row.row(0));
      across.make(row.row(0), made + y * made_bytes);
    }
    return;
  }
  PixelRows row(1, pixels.width, across.room());
  PixelRows rows(down.end - first, size.width, WeighedRows::kTile);
  for (std::size_t y = first; y < down.end; ++y) {
    spread(pixels, y, row.row(0));
    across.make(row.row(0), rows.row(y - first));
  }
  for (std::size_t y = 0; y < size.height; ++y)
    make_row(down, rows, first, y, made + y * made_bytes);
}

}  // namespace sweephand
