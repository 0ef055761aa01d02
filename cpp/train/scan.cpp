#include "train/scan.hpp"

#include "base/cpu.hpp"

#include <algorithm>

namespace sweephand {
namespace {

template <class Element, Change How>
typename Element::Stored changed(typename Element::Stored stored,
                                 typename Element::Value operand) {
  const auto value = Element::load(stored);
  return Element::store(How == Change::kMultiply ? value * operand : value / operand);
}

// Adds `size` elements, a row or the rest. For a whole row the compiler knows the size.
template <class Element, Change How>
[[gnu::always_inline]] inline void add_row(typename Element::Stored* row, std::size_t size,
                                           const ScanRule& rule, Scanned& scanned,
                                           std::array<double, Layout<Element>::kLanes>& sums) {
  using Rows = Layout<Element>;
  const auto operand = static_cast<typename Element::Value>(rule.operand);
  const auto limit = static_cast<typename Element::Bits>(rule.limit);
  std::array<typename Rows::Square, Rows::kLanes> squares{};
  for (std::size_t i = 0; i < size; ++i) {
    const auto value = static_cast<typename Rows::Square>(Element::load(row[i]));
    squares[i % Rows::kLanes] += value * value;
  }
  typename Element::Bits num_large = 0;
  for (std::size_t i = 0; i < size; ++i) num_large += magnitude<Element>(row[i]) >= limit;
  if constexpr (How != Change::kNone) {
    for (std::size_t i = 0; i < size; ++i) row[i] = changed<Element, How>(row[i], operand);
  }
  scanned.num_large += num_large;
  for (std::size_t lane = 0; lane < Rows::kLanes; ++lane) sums[lane] += squares[lane];
}

template <class Element, Change How>
Scanned scan_rows(typename Element::Stored* data, std::size_t size, const ScanRule& rule) {
  constexpr std::size_t kRow = Layout<Element>::kRow;
  std::array<double, Layout<Element>::kLanes> sums{};
  Scanned scanned;
  std::size_t begin = 0;
  for (; begin + kRow <= size; begin += kRow) {
    add_row<Element, How>(data + begin, kRow, rule, scanned, sums);
  }
  if (begin < size) {
    add_row<Element, How>(data + begin, size - begin, rule, scanned, sums);
  }
  scanned.sum_of_squares = add_lanes(sums);
  return scanned;
}

template <class Element>
Scanned scan_all(typename Element::Stored* data, std::size_t size, const ScanRule& rule) {
  switch (rule.change) {
    case Change::kNone:
      return scan_rows<Element, Change::kNone>(data, size, rule);
    case Change::kMultiply:
      return scan_rows<Element, Change::kMultiply>(data, size, rule);
    case Change::kDivide:
      break;
  }
  return scan_rows<Element, Change::kDivide>(data, size, rule);
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
