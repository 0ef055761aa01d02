#include "train/unscale.hpp"

#include "train/scan.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace sweephand {
namespace {

// Division by `scale`: by its reciprocal where that is exact, also as a float.
ScanRule division_by(double scale) {
  int exponent = 0;
  const bool is_power_of_two = std::frexp(scale, &exponent) == 0.5;
  if (is_power_of_two && scale >= 0x1p-126 && scale <= 0x1p126) {
    return {.change = Change::kMultiply, .operand = 1.0 / scale};
  }
  return {.change = Change::kDivide, .operand = scale};
}

template <class Element>
typename Element::Value quotient(typename Element::Stored stored, const ScanRule& division) {
  const auto value = Element::load(stored);
  const auto operand = static_cast<typename Element::Value>(division.operand);
  return division.change == Change::kMultiply ? value * operand : value / operand;
}

// The first magnitude that is not small. Small magnitudes come first, so it is found by halving
// the bits up to those of infinity.
template <class Element>
std::uint64_t first_large(const ScanRule& division, bool in_place) {
  using Bits = typename Element::Bits;
  using Stored = typename Element::Stored;
  const auto is_small = [&](std::uint64_t bits) {
    const auto stored = std::bit_cast<Stored>(static_cast<Bits>(bits));
    if (Element::load(stored) < Float16::kLeastNormal) return true;
    return in_place &&
           magnitude<Element>(Element::store(quotient<Element>(stored, division))) == 0;
  };
  using Value = typename Element::Value;
  std::uint64_t small = 0;
  std::uint64_t large =
      magnitude<Element>(Element::store(std::numeric_limits<Value>::infinity()));
  while (large - small > 1) {
    const std::uint64_t middle = small + (large - small) / 2;
    (is_small(middle) ? small : large) = middle;
  }
  return large;
}

// The limit of every type: small tensors are many, and a search takes longer than their scan.
class Limits {
 public:
  Limits(const ScanRule& division, bool in_place)
      : float16_(first_large<Float16>(division, in_place)),
        bfloat16_(first_large<BFloat16>(division, in_place)),
        float32_(first_large<Float32>(division, in_place)),
        float64_(first_large<Float64>(division, in_place)) {}

  template <class Element>
  std::uint64_t of() const noexcept {
    if constexpr (std::is_same_v<Element, Float16>) return float16_;
    if constexpr (std::is_same_v<Element, BFloat16>) return bfloat16_;
    if constexpr (std::is_same_v<Element, Float32>) return float32_;
    return float64_;
  }

 private:
  std::uint64_t float16_;
  std::uint64_t bfloat16_;
  std::uint64_t float32_;
  std::uint64_t float64_;
};

// Wide instructions slow certain processors down for about a millisecond: they must be worth
// it. Float16 is slow without them.
constexpr std::size_t kWideElements = 100'000;
template <class Element>
constexpr bool kIsHalf = std::is_same_v<Element, Float16>;

// Of a double above 2^512 the square is infinite: then those of smaller numbers are added up.
constexpr double kSmaller = 0x1p-600;

struct PieceFindings {
  Scanned scanned;
  double smaller_squares = 0;  // of the values divided by the scale, times kSmaller
  std::uint64_t num_nan = 0;
  std::uint64_t num_inf = 0;
};

// Only for a piece that may hold such a value: the scan itself sees only a sum.
template <class Element>
void count_nonfinite(const Tensor& run, const ScanRule& division, bool in_place,
                     PieceFindings& findings) {
  for (const auto stored : std::span(run.as<typename Element::Stored>(), run.size)) {
    const auto value = in_place ? Element::load(stored) : quotient<Element>(stored, division);
    findings.num_nan += std::isnan(value) ? 1 : 0;
    findings.num_inf += std::isinf(value) ? 1 : 0;
    const double smaller = static_cast<double>(value) * kSmaller;
    findings.smaller_squares += smaller * smaller;
  }
}

Findings gather(std::span<const Tensor> gradients, std::span<const TensorPiece> pieces,
                std::span<const PieceFindings> by_piece, double scale) {
  const std::size_t count = gradients.size();
  Findings findings{.num_nan = std::vector<std::uint64_t>(count),
                    .num_inf = std::vector<std::uint64_t>(count),
                    .num_small = std::vector<std::uint64_t>(count),
                    .norms = std::vector<double>(count)};
  std::vector<double> smaller_squares(count);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const std::size_t tensor = pieces[i].tensor;
    findings.num_nan[tensor] += by_piece[i].num_nan;
    findings.num_inf[tensor] += by_piece[i].num_inf;
    findings.num_small[tensor] += pieces[i].size - by_piece[i].scanned.num_large;
    findings.norms[tensor] += by_piece[i].scanned.sum_of_squares;
    smaller_squares[tensor] += by_piece[i].smaller_squares;
  }
  for (std::size_t i = 0; i < count; ++i) {
    const double sum = findings.norms[i] / scale / scale;
    findings.norms[i] =
        std::isfinite(sum) ? std::sqrt(sum) : std::sqrt(smaller_squares[i]) / kSmaller;
  }
  return findings;
}

Findings look(std::span<const Tensor> gradients, const UnscaleOptions& options, bool in_place) {
  const ScanRule division = division_by(options.scale);
  const std::vector<TensorPiece> pieces = cut(gradients);
  const bool are_few = num_elements(pieces) < kWideElements;
  std::vector<PieceFindings> by_piece(pieces.size());
  const Limits limits(division, in_place);
  share_out(pieces, options.num_threads, [&](const TensorPiece& piece, std::size_t i) {
    const Tensor run = gradients[piece.tensor].part(piece.begin, piece.size);
    visit_float(run.type, [&]<class Element>(Element /*element*/) {
      const ScanRule rule{.change = in_place ? division.change : Change::kNone,
                          .operand = division.operand,
                          .limit = limits.of<Element>()};
      const bool is_portable = options.portable || (are_few && !kIsHalf<Element>);
      by_piece[i].scanned = is_portable ? scan_portable(run, rule) : scan(run, rule);
      const bool may_overflow = options.scale < 1.0;
      if (may_overflow || !std::isfinite(by_piece[i].scanned.sum_of_squares)) {
        count_nonfinite<Element>(run, division, in_place, by_piece[i]);
      }
    });
  });
  return gather(gradients, pieces, by_piece, options.scale);
}

}  // namespace

Findings unscale(std::span<const Tensor> gradients, const UnscaleOptions& options) {
  return look(gradients, options, true);
}

Findings examine(std::span<const Tensor> gradients, const UnscaleOptions& options) {
  return look(gradients, options, false);
}

}  // namespace sweephand
