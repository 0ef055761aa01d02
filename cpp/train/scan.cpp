#include "train/scan.hpp"

#include "base/cpu.hpp"
#include "base/element.hpp"
#include "train/tensor.hpp"

#include <algorithm>
#include <array>
#include <cstddef>

namespace sweephand {
namespace {

template <class Element>
typename Element::Stored changed(typename Element::Stored stored, const ScanRule& rule) {
  const auto value = Element::load(stored);
  const auto operand = static_cast<typename Element::Value>(rule.operand);
  return Element::store(rule.change == Change::kMultiply ? value * operand : value / operand);
}

template <class Element>
Scanned scan_all(typename Element::Stored* data, std::size_t size, const ScanRule& rule) {
  using Rows = Layout<Element>;
  std::array<double, Rows::kLanes> sums{};
  Scanned scanned;
  for (std::size_t begin = 0; begin < size; begin += Rows::kRow) {
    std::array<typename Rows::Square, Rows::kLanes> squares{};
    const std::size_t end = std::min(begin + Rows::kRow, size);
    for (std::size_t i = begin; i < end; ++i) {
      const auto stored = data[i];
      const auto value = static_cast<typename Rows::Square>(Element::load(stored));
      squares[i % Rows::kLanes] += value * value;
      scanned.num_large += magnitude<Element>(stored) >= rule.limit ? 1 : 0;
      if (rule.change != Change::kNone) data[i] = changed<Element>(stored, rule);
    }
    for (std::size_t lane = 0; lane < Rows::kLanes; ++lane) sums[lane] += squares[lane];
  }
  scanned.sum_of_squares = add_lanes(sums);
  return scanned;
}

}  // namespace

Scanned scan(const Tensor& run, const ScanRule& rule) {
#ifdef __x86_64__
  if (cpu().avx2) return scan_avx2(run, rule);
#endif
  return scan_portable(run, rule);
}

Scanned scan_portable(const Tensor& run, const ScanRule& rule) {
  return visit_float(run.type, [&]<class Element>(Element) {
    return scan_all<Element>(run.as<typename Element::Stored>(), run.size, rule);
  });
}

}  // namespace sweephand
