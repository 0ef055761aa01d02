// The scan by AVX2, FMA and F16C. FMA changes no bit here: it is used only where the product
// is exact.
#include "base/element.hpp"
#include "train/scan.hpp"
#include "train/tensor.hpp"

#ifdef __x86_64__

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <immintrin.h>
#include <limits>
#include <type_traits>

// Code between push and pop may use these instructions; callers check for them first.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#endif

// NOLINTBEGIN(portability-simd-intrinsics): scan_portable is the portable one
namespace sweephand {
namespace {

__m128i load_halves(const std::uint16_t* from) {
  return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

void store_halves(std::uint16_t* to, __m128i halves) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(to), halves);
}

// A register of elements as they are computed with, and back.
__m256 load(Float16 /*element*/, const std::uint16_t* from) {
  return _mm256_cvtph_ps(load_halves(from));
}

void store(Float16 /*element*/, std::uint16_t* to, __m256 values) {
  store_halves(to, _mm256_cvtps_ph(values, _MM_FROUND_TO_NEAREST_INT));
}

__m256 load(BFloat16 /*element*/, const std::uint16_t* from) {
  const __m256i bits = _mm256_cvtepu16_epi32(load_halves(from));
  return _mm256_castsi256_ps(_mm256_slli_epi32(bits, 16));
}

void store(BFloat16 /*element*/, std::uint16_t* to, __m256 values) {
  const __m256i bits = _mm256_castps_si256(values);
  const __m256i upper = _mm256_srli_epi32(bits, 16);
  const __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  const __m256i half = _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff));
  const __m256i rounded = _mm256_srli_epi32(_mm256_add_epi32(bits, half), 16);
  const __m256i quiet = _mm256_or_si256(upper, _mm256_set1_epi32(0x40));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(values, values, _CMP_UNORD_Q));
  const __m256i chosen = _mm256_blendv_epi8(rounded, quiet, is_nan);
  store_halves(to, _mm_packus_epi32(_mm256_castsi256_si128(chosen),
                                    _mm256_extracti128_si256(chosen, 1)));
}

__m256 load(Float32 /*element*/, const float* from) { return _mm256_loadu_ps(from); }

void store(Float32 /*element*/, float* to, __m256 values) { _mm256_storeu_ps(to, values); }

__m256d load(Float64 /*element*/, const double* from) { return _mm256_loadu_pd(from); }

void store(Float64 /*element*/, double* to, __m256d values) { _mm256_storeu_pd(to, values); }

__m256 multiply(__m256 a, __m256 b) { return _mm256_mul_ps(a, b); }
__m256d multiply(__m256d a, __m256d b) { return _mm256_mul_pd(a, b); }
__m256 divide(__m256 a, __m256 b) { return _mm256_div_ps(a, b); }
__m256d divide(__m256d a, __m256d b) { return _mm256_div_pd(a, b); }

// Adds one to the lanes of `counts` where 32 bytes hold a magnitude above `bound`.
__m256i count_above(__m256i counts, __m256i bound, const std::uint16_t* sixteen) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(sixteen));
  const __m256i magnitudes = _mm256_and_si256(bits, _mm256_set1_epi16(0x7fff));
  return _mm256_sub_epi16(counts, _mm256_cmpgt_epi16(magnitudes, bound));
}

__m256i count_above(__m256i counts, __m256i bound, const float* eight) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(eight));
  const __m256i magnitudes = _mm256_and_si256(bits, _mm256_set1_epi32(0x7fffffff));
  return _mm256_sub_epi32(counts, _mm256_cmpgt_epi32(magnitudes, bound));
}

__m256i count_above(__m256i counts, __m256i bound, const double* four) {
  const __m256i bits = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(four));
  const __m256i magnitudes =
      _mm256_and_si256(bits, _mm256_set1_epi64x(std::numeric_limits<std::int64_t>::max()));
  return _mm256_sub_epi64(counts, _mm256_cmpgt_epi64(magnitudes, bound));
}

// One value in every lane.
__m256i splat(std::uint16_t bits) { return _mm256_set1_epi16(static_cast<short>(bits)); }
__m256i splat(std::uint32_t bits) { return _mm256_set1_epi32(static_cast<int>(bits)); }

__m256i splat(std::uint64_t bits) {
  return _mm256_set1_epi64x(static_cast<std::int64_t>(bits));
}
void splat(float value, __m256& lanes) { lanes = _mm256_set1_ps(value); }
void splat(double value, __m256d& lanes) { lanes = _mm256_set1_pd(value); }

__m256d lower(__m256 values) { return _mm256_cvtps_pd(_mm256_castps256_ps128(values)); }
__m256d upper(__m256 values) { return _mm256_cvtps_pd(_mm256_extractf128_ps(values, 1)); }

// Adds the squares of four floats. Widened on the way from memory they need no shuffle.
void add_squares(__m256d& sums, const float* four) {
  const __m256d values = _mm256_cvtps_pd(_mm_loadu_ps(four));
  sums = _mm256_fmadd_pd(values, values, sums);
}

// Adds the squares of a register to the sums of its lanes, four to a register.
void add_squares(__m256d* sums, __m256 values) {
  sums[0] = _mm256_fmadd_pd(lower(values), lower(values), sums[0]);
  sums[1] = _mm256_fmadd_pd(upper(values), upper(values), sums[1]);
}

void add_squares(__m256d* sums, __m256d values) {
  sums[0] = _mm256_add_pd(sums[0], _mm256_mul_pd(values, values));
}

// The rows seen so far. Lane by lane as in scan_portable: lane j is in sums_[j / 4].
template <class Element, Change How>
class Rows {
 public:
  using Stored = typename Element::Stored;
  static constexpr std::size_t kRow = Layout<Element>::kRow;

  explicit Rows(const ScanRule& rule)
      : last_small_(splat(static_cast<typename Element::Bits>(rule.limit - 1))) {
    splat(static_cast<typename Element::Value>(rule.operand), operand_);
  }

  void add(Stored* row) {
    prefetch_ahead(row);
    for (std::size_t i = 0; i < kRow; i += kCounters) {
      counts_ = count_above(counts_, last_small_, row + i);
    }
    if constexpr (std::is_same_v<typename Layout<Element>::Square, float>) {
      __m256 squares = _mm256_setzero_ps();
      for (std::size_t i = 0; i < kRow; i += 8) {
        const __m256 values = take(row + i);
        squares = _mm256_fmadd_ps(values, values, squares);
      }
      sums_[0] = _mm256_add_pd(sums_[0], lower(squares));
      sums_[1] = _mm256_add_pd(sums_[1], upper(squares));
    } else if constexpr (std::is_same_v<Element, Float32>) {
      for (std::size_t i = 0; i < kRow; i += 4) add_squares(sums_[i / 4], row + i);
      for (std::size_t i = 0; i < kRow; i += kTaken) take(row + i);
    } else {
      for (std::size_t i = 0; i < kRow; i += kTaken) add_squares(sums_ + i / 4, take(row + i));
    }
  }

  Scanned scanned() const {
    std::array<double, kLanes> lanes;
    std::memcpy(lanes.data(), sums_, sizeof lanes);
    std::array<typename Element::Bits, kCounters> counts;
    std::memcpy(counts.data(), &counts_, sizeof counts);
    Scanned scanned{.sum_of_squares = add_lanes(lanes)};
    for (const std::uint64_t count : counts) scanned.num_large += count;
    return scanned;
  }

 private:
  static constexpr std::size_t kLanes = Layout<Element>::kLanes;
  static constexpr std::size_t kCounters = 32 / sizeof(Stored);
  static constexpr std::size_t kTaken = 32 / sizeof(typename Element::Value);
  using Register = decltype(load(Element{}, static_cast<const Stored*>(nullptr)));

  // Returns a register of values as loaded, and writes changed values back.
  Register take(Stored* elements) const {
    const Register values = load(Element{}, elements);
    if constexpr (How == Change::kMultiply) {
      store(Element{}, elements, multiply(values, operand_));
    } else if constexpr (How == Change::kDivide) {
      store(Element{}, elements, divide(values, operand_));
    }
    return values;
  }

  Register operand_;
  __m256i last_small_;
  __m256i counts_ = _mm256_setzero_si256();
  // NOLINTNEXTLINE(modernize-avoid-c-arrays): an array template drops the type's alignment
  __m256d sums_[kLanes / 4] = {};
};

template <class Element, Change How>
Scanned scan_run(typename Element::Stored* data, std::size_t size, const ScanRule& rule) {
  Rows<Element, How> rows(rule);
  constexpr std::size_t kRow = Layout<Element>::kRow;
  std::size_t begin = 0;
  for (; begin + kRow <= size; begin += kRow) rows.add(data + begin);
  if (const std::size_t rest = size - begin; rest > 0) {
    std::array<typename Element::Stored, kRow> last{};
    std::memcpy(last.data(), data + begin, rest * sizeof last[0]);
    rows.add(last.data());
    if (How != Change::kNone) {
      std::memcpy(data + begin, last.data(), rest * sizeof last[0]);
    }
  }
  return rows.scanned();
}

template <class Element>
Scanned scan_run(const Tensor& run, const ScanRule& rule) {
  auto* const data = run.as<typename Element::Stored>();
  switch (rule.change) {
    case Change::kNone:
      return scan_run<Element, Change::kNone>(data, run.size, rule);
    case Change::kMultiply:
      return scan_run<Element, Change::kMultiply>(data, run.size, rule);
    case Change::kDivide:
      break;
  }
  return scan_run<Element, Change::kDivide>(data, run.size, rule);
}

}  // namespace

Scanned scan_avx2(const Tensor& run, const ScanRule& rule) {
  return visit_float(run.type,
                     [&]<class Element>(Element) { return scan_run<Element>(run, rule); });
}

}  // namespace sweephand
// NOLINTEND(portability-simd-intrinsics)

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
