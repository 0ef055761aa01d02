#include "base/filter_kernel.hpp"

#include <algorithm>
#include <cmath>

namespace sweephand {
namespace {

// The radius of a filter, in pixels of the smaller picture.
double reach_of(Filter filter) noexcept {
  if (filter == Filter::kBox) return 0.5;
  return filter == Filter::kBilinear ? 1.0 : 2.0;
}

double weight_at(Filter filter, double distance) noexcept {
  if (filter == Filter::kBox) return distance > -0.5 && distance <= 0.5 ? 1.0 : 0.0;
  const double x = std::abs(distance);
  if (filter == Filter::kBilinear) return x < 1.0 ? 1.0 - x : 0.0;
  constexpr double kSharpness = -0.5;
  if (x < 1.0) return ((kSharpness + 2.0) * x - (kSharpness + 3.0)) * x * x + 1;
  return x < 2.0 ? (((x - 5) * x + 8) * x - 4) * kSharpness : 0.0;
}

// NOLINTBEGIN(bugprone-incorrect-roundings): as Pillow rounds
std::int32_t to_fixed(double value) noexcept {
  const double scaled = value * (1U << FilterKernel::kFraction);
  return static_cast<std::int32_t>(value < 0 ? scaled - 0.5 : scaled + 0.5);
}

std::size_t place_of(double border) noexcept {
  return static_cast<std::size_t>(std::max(0.0, border + 0.5));
}
// NOLINTEND(bugprone-incorrect-roundings)

}  // namespace

FilterKernel make_kernel(Filter filter, float begin, float end, std::size_t from,
                         std::size_t to) {
  const double scale = static_cast<double>(end - begin) / static_cast<double>(to);
  const double stretch = std::max(scale, 1.0);
  const double reach = reach_of(filter) * stretch;
  const auto center_of = [&](std::size_t i) {
    return begin + (static_cast<double>(i) + 0.5) * scale;
  };
  const auto end_of = [&](double center) { return std::min(from, place_of(center + reach)); };

  FilterKernel kernel;
  kernel.first.reserve(to);
  for (std::size_t i = 0; i < to; ++i) {
    const double center = center_of(i);
    kernel.first.push_back(place_of(center - reach));
    kernel.end = std::max(kernel.end, end_of(center));
    kernel.taps = std::max(kernel.taps, end_of(center) - kernel.first.back());
  }
  constexpr std::size_t kTogether = FilterKernel::kTogether;
  kernel.taps = (kernel.taps + kTogether - 1) / kTogether * kTogether;
  kernel.weights.assign(to * kernel.taps, 0);
  std::vector<double> exact(kernel.taps);
  for (std::size_t i = 0; i < to; ++i) {
    const double center = center_of(i);
    const std::size_t count = end_of(center) - kernel.first[i];
    double total = 0;
    for (std::size_t t = 0; t < count; ++t) {
      const double distance = static_cast<double>(kernel.first[i] + t) - center + 0.5;
      exact[t] = weight_at(filter, distance * (1.0 / stretch));
      total += exact[t];
    }
    for (std::size_t t = 0; t < count; ++t)
      kernel.weights[i * kernel.taps + t] = to_fixed(total == 0 ? exact[t] : exact[t] / total);
  }
  return kernel;
}

}  // namespace sweephand
