// The weights of the pixels of a row or column for a row or column of another size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sweephand {

enum class Filter : std::uint8_t { kBox, kBilinear, kBicubic };

// Place i of the new row is the sum of `taps` pixels, from `first[i]` on, by `weights[i *
// taps]` and so on, integers with `kFraction` bits after the point. The last weights may be 0,
// for pixels that need not exist.
struct FilterKernel {
  static constexpr int kFraction = 22;
  static constexpr std::int32_t kHalf = static_cast<std::int32_t>(1U << (kFraction - 1));
  static constexpr std::size_t kTogether = 4;  // taps are a multiple of it

  std::vector<std::size_t> first;
  std::vector<std::int32_t> weights;
  std::size_t taps = 0;
  std::size_t end = 0;  // of all pixels that count
};

// Of the part [begin, end) of `from` pixels, brought to `to`. Pixels beyond it count where the
// filter reaches them. REQUIRES: 0 <= begin < end <= from, to > 0
FilterKernel make_kernel(Filter filter, float begin, float end, std::size_t from,
                         std::size_t to);

}  // namespace sweephand
