#include "train/segment_sums.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::size_t kLanes = 8;

// Lanes do not wait for each other, as one sum would for each of its additions.
double sum_of(std::span<const float> values) noexcept {
  std::array<double, kLanes> lanes{};
  std::size_t i = 0;
  for (; i + kLanes <= values.size(); i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      lanes[lane] += static_cast<double>(values[i + lane]);
    }
  }
  double sum = 0;
  for (; i < values.size(); ++i) sum += static_cast<double>(values[i]);
  for (const double lane : lanes) sum += lane;
  return sum;
}

}  // namespace

std::vector<double> segment_sums(std::span<const float> values,
                                 std::span<const std::uint64_t> begins,
                                 std::span<const std::uint64_t> sizes) {
  if (begins.size() != sizes.size()) {
    throw std::invalid_argument("there must be as many sizes as begins of segments, got " +
                                std::to_string(sizes.size()) + " and " +
                                std::to_string(begins.size()));
  }
  std::vector<double> sums(begins.size());
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (begins[i] > values.size() || sizes[i] > values.size() - begins[i]) {
      throw std::invalid_argument("segment " + std::to_string(i) + " reaches beyond the " +
                                  std::to_string(values.size()) + " values");
    }
    sums[i] = sum_of(values.subspan(begins[i], sizes[i]));
  }
  return sums;
}

std::vector<double> row_sums(std::span<const float> values,
                             std::span<const std::uint32_t> cells,
                             std::span<const std::uint32_t> sizes, std::uint64_t width) {
  if (cells.size() != 4 * sizes.size()) {
    throw std::invalid_argument("there must be four numbers for each piece, got " +
                                std::to_string(cells.size()) + " for " +
                                std::to_string(sizes.size()));
  }
  const std::uint64_t num_rows = width == 0 ? 0 : values.size() / width;
  std::vector<double> sums(sizes.size() + 1);
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::uint64_t row = cells[4 * i];
    if (row >= num_rows) {
      throw std::invalid_argument("row " + std::to_string(row) + " lies beyond the " +
                                  std::to_string(num_rows) + " rows of values");
    }
    const std::uint64_t begin = std::min<std::uint64_t>(cells[4 * i + 1], width);
    const std::uint64_t size = std::min<std::uint64_t>(sizes[i], width - begin);
    sums[i] = sum_of(values.subspan(row * width + begin, size));
  }
  sums.back() = sum_of(values);
  return sums;
}

}  // namespace sweephand
