#include "train/unscale.hpp"

#include "base/half.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <type_traits>

namespace sweephand {
namespace {

// The change of every element.
enum class Change : std::uint8_t { kNone, kMultiply, kDivide };

struct ScanRule {
  Change change;
  double operand;       // factor or divisor
  std::uint64_t limit;  // the magnitude, as stored bits, from which an element is not small
};

struct Scanned {
  double sum_of_squares = 0;  // of the elements as they came; not finite if one of them is not
  std::uint64_t num_large = 0;
};

// How squares are added up, so that all ways give the same bits: lane j takes element j,
// j + lanes, ..., and at the end the lanes are added in a fixed tree. The square of a float is
// exact in double. That of a float16 is exact in float (22 bits, between 2^-48 and 2^32), so
// eight of them, in a row, may be added before they are widened.
template <class Element>
using Sums = std::array<double, std::is_same_v<Element, Float16> ? 8 : 16>;
constexpr std::size_t kFloat16Row = 64;

constexpr std::size_t kWidened = 1024;  // elements that are widened at a time: whole rows

// The bits of an element without its sign: their order is that of the magnitudes.
template <class Element>
typename Element::Bits magnitude(typename Element::Stored stored) noexcept {
  using Bits = typename Element::Bits;
  constexpr auto kAllButSign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  return static_cast<Bits>(std::bit_cast<Bits>(stored) & kAllButSign);
}

// Adds the squares of `size` values to the lanes.
template <class Square, std::size_t kLanes, class Value>
[[gnu::always_inline]] inline void add_squares(const Value* values, std::size_t size,
                                               std::array<Square, kLanes>& lanes) {
  std::array<Square, kLanes> sums = lanes;  // in registers
  std::size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const auto value = static_cast<Square>(values[i + lane]);
      sums[lane] += value * value;
    }
  }
  for (std::size_t lane = 0; lane < size - i; ++lane) {
    const auto value = static_cast<Square>(values[i + lane]);
    sums[lane] += value * value;
  }
  lanes = sums;
}

// Adds those of a row of floats to the sums of all rows.
template <std::size_t kLanes>
[[gnu::always_inline]] inline void add_row(const float* row, std::size_t size,
                                           std::array<double, kLanes>& sums) {
  std::array<float, kLanes> squares{};
  add_squares(row, size, squares);
  for (std::size_t lane = 0; lane < kLanes; ++lane)
    sums[lane] += static_cast<double>(squares[lane]);
}

// The elements of a run as they are computed with: themselves, or widened into `buffer`.
template <class Element>
const typename Element::Value* widened(const Tensor& run,
                                       std::span<typename Element::Value> buffer) {
  const auto* const stored = run.as<typename Element::Stored>();
  if constexpr (StoredAsItIs<Element>) {
    return stored;
  } else if constexpr (std::is_same_v<Element, Float16>) {
    widen_float16({stored, run.size}, buffer.first(run.size));
  } else {
    run_wide([&]() __attribute__((always_inline)) {
      for (std::size_t i = 0; i < run.size; ++i) buffer[i] = Element::load(stored[i]);
    });
  }
  return buffer.data();
}

// Writes the changed elements. `buffer` may hold `values`.
template <class Element>
void change(const Tensor& run, const typename Element::Value* values, const ScanRule& rule,
            std::span<typename Element::Value> buffer) {
  auto* const stored = run.as<typename Element::Stored>();
  const auto operand = static_cast<typename Element::Value>(rule.operand);
  const bool multiplies = rule.change == Change::kMultiply;
  if constexpr (std::is_same_v<Element, Float16>) {
    run_wide([&]() __attribute__((always_inline)) {
      for (std::size_t i = 0; i < run.size; ++i)
        buffer[i] = multiplies ? values[i] * operand : values[i] / operand;
    });
    round_to_float16(buffer.first(run.size), {stored, run.size});
  } else {
    run_wide([&]() __attribute__((always_inline)) {
      for (std::size_t i = 0; i < run.size; ++i)
        stored[i] = Element::store(multiplies ? values[i] * operand : values[i] / operand);
    });
  }
}

template <class Element>
Scanned scan(const Tensor& run, const ScanRule& rule) {
  std::array<typename Element::Value, kWidened> buffer;
  Sums<Element> sums{};
  Scanned scanned;
  for (std::size_t begin = 0; begin < run.size; begin += kWidened) {
    const Tensor part = run.part(begin, std::min(kWidened, run.size - begin));
    const auto* const stored = part.as<typename Element::Stored>();
    const auto* const values = widened<Element>(part, buffer);
    const auto limit = static_cast<typename Element::Bits>(rule.limit);
    run_wide([&]() __attribute__((always_inline)) {
      typename Element::Bits num_large = 0;
      for (std::size_t i = 0; i < part.size; ++i)
        num_large = static_cast<typename Element::Bits>(
            num_large + (magnitude<Element>(stored[i]) >= limit ? 1 : 0));
      scanned.num_large += num_large;
      if constexpr (std::is_same_v<Element, Float16>) {
        std::size_t row = 0;
        for (; row + kFloat16Row <= part.size; row += kFloat16Row)
          add_row(values + row, kFloat16Row, sums);
        add_row(values + row, part.size - row, sums);
      } else {
        add_squares(values, part.size, sums);
      }
    });
    if (rule.change != Change::kNone) change<Element>(part, values, rule, buffer);
  }
  for (std::size_t half = sums.size() / 2; half > 0; half /= 2) {
    for (std::size_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  scanned.sum_of_squares = sums[0];
  return scanned;
}

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
  std::vector<PieceFindings> by_piece(pieces.size());
  const Limits limits(division, in_place);
  share_out(pieces, options.num_threads, [&](const TensorPiece& piece, std::size_t i) {
    const Tensor run = gradients[piece.tensor].part(piece.begin, piece.size);
    visit_float(run.type, [&]<class Element>(Element /*element*/) {
      const ScanRule rule{.change = in_place ? division.change : Change::kNone,
                          .operand = division.operand,
                          .limit = limits.of<Element>()};
      by_piece[i].scanned = scan<Element>(run, rule);
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
