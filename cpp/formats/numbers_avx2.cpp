// Ordinary numbers by AVX2, 64 bytes of text at a time. The end of each number is known before
// any is read, so that the processor reads several at once.
//
//   | 12:1.5 7:-0.25 31:1 |    bits of the bytes
//    ^      ^       ^    ^     stops
//      ^      ^ ^ ^    ^       not digits: colons, signs and points
#include "formats/decimal.hpp"
#include "formats/numbers.hpp"

#ifdef __x86_64__

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <immintrin.h>
#include <type_traits>

// Code between push and pop may use these instructions; callers check for them first.
#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,bmi,bmi2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,bmi,bmi2")
#endif

// NOLINTBEGIN(portability-simd-intrinsics): the portable ones are in formats/numbers.cpp
namespace sweephand::numbers {
namespace {

constexpr int kBlock = 64;
static_assert(kNumberPadding >= kBlock + 16);

__m128i load(const void* from) { return _mm_loadu_si128(static_cast<const __m128i*>(from)); }

// The places of the digits of a number in its text. From entry 16 - n of `kPlaces` on are the
// places of a number of n digits, right-aligned; those after a point are one further, the last
// n entries of sixteen that begin at entry n of `kBehindPoint`.
constexpr int kWidth = 16;
struct alignas(kWidth) Bytes32 {
  std::array<std::uint8_t, std::size_t{2} * kWidth> bytes;
};
constexpr Bytes32 kPlaces = [] {
  Bytes32 places{};
  for (std::uint8_t i = 0; i < kWidth; ++i) {
    places.bytes.at(i) = 0x80;  // nowhere: a zero
    places.bytes.at(kWidth + i) = i;
  }
  return places;
}();
constexpr Bytes32 kBehindPoint = [] {
  Bytes32 bytes{};
  for (int i = 0; i < kWidth; ++i) bytes.bytes.at(kWidth + i) = 1;
  return bytes;
}();
constexpr Bytes32 kZeros = [] {
  Bytes32 bytes{};
  for (auto& byte : bytes.bytes) byte = '0';
  return bytes;
}();

// The values of `count` digits from `text` on, right-aligned in `width` bytes, 16 or the lower
// 8; before the last `num_fraction` of them a byte is passed over.
[[gnu::always_inline]] inline __m128i align(const char* text, std::uint64_t count,
                                            std::uint64_t num_fraction, int width) {
  const int missing = kWidth - width;
  const __m128i values = _mm_sub_epi8(load(text), load(kZeros.bytes.data()));
  const __m128i places = _mm_add_epi8(load(kPlaces.bytes.data() + missing + count),
                                      load(kBehindPoint.bytes.data() + missing + num_fraction));
  return _mm_shuffle_epi8(values, places);
}

// Two numbers of eight digits each, in the lower two words.
[[gnu::always_inline]] inline __m128i join(__m128i digits) {
  const __m128i twos = _mm_maddubs_epi16(digits, _mm_set1_epi16(0x010a));
  const __m128i fours = _mm_madd_epi16(twos, _mm_set1_epi32(0x00010064));
  const __m128i packed = _mm_packus_epi32(fours, fours);
  return _mm_madd_epi16(packed, _mm_set1_epi32(0x00012710));
}

// Bit i for byte i.
struct Marks64 {
  std::uint64_t digits = 0;
  std::uint64_t points = 0;
  std::uint64_t minuses = 0;
  std::uint64_t colons = 0;
  std::uint64_t spaces = 0;
};

[[gnu::always_inline]] inline std::uint64_t bits_of(__m256i low, __m256i high) {
  return static_cast<std::uint32_t>(_mm256_movemask_epi8(low)) |
         std::uint64_t{static_cast<std::uint32_t>(_mm256_movemask_epi8(high))} << 32;
}

[[gnu::always_inline]] inline std::uint64_t find(__m256i low, __m256i high, char byte) {
  const __m256i bytes = _mm256_set1_epi8(byte);
  return bits_of(_mm256_cmpeq_epi8(low, bytes), _mm256_cmpeq_epi8(high, bytes));
}

[[gnu::always_inline]] inline __m256i find_digits(__m256i bytes) {
  // With this offset digits are the smallest signed bytes.
  const __m256i moved = _mm256_add_epi8(bytes, _mm256_set1_epi8(static_cast<char>(0x80 - '0')));
  return _mm256_cmpgt_epi8(_mm256_set1_epi8(static_cast<char>(0x80 + 10)), moved);
}

[[gnu::always_inline]] inline Marks64 mark_block(const char* text) {
  const __m256i low = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text));
  const __m256i high = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(text + 32));
  return {.digits = bits_of(find_digits(low), find_digits(high)),
          .points = find(low, high, '.'),
          .minuses = find(low, high, '-'),
          .colons = find(low, high, ':'),
          .spaces = find(low, high, ' ')};
}

// The bytes of a block after its first, a space, number by number or pair by pair.
class Block {
 public:
  [[gnu::always_inline]] Block(const char* text, bool of_pairs) : text_(text) {
    marks_ = mark_block(text);
    std::uint64_t within = marks_.digits | marks_.points | marks_.minuses | 1;
    if (of_pairs) within |= marks_.colons;
    // Nothing after the first stop that is no space counts.
    const std::uint64_t last = ~within & ~marks_.spaces;
    stops_ = ~within & _blsmsk_u64(last);
    if (last != 0 && is_e(text[_tzcnt_u64(last)])) stops_ &= marks_.spaces;
  }

  // Goes on to the next number, if all of it is in the block.
  [[gnu::always_inline]] bool next() noexcept {
    begin_ = end_ + 1;
    end_ = _tzcnt_u64(stops_);
    stops_ = _blsr_u64(stops_);
    return end_ < kBlock;
  }

  // The current number; false if it is not ordinary.
  template <class T>
  [[gnu::always_inline]] bool take_number(T& value) noexcept {
    const Shape shape = take_shape();
    if (!shape.is_ordinary || shape.num_digits >= kWidth) return false;
    const __m128i digits = align(text_ + shape.begin, shape.num_digits, shape.num_fraction, 16);
    const __m128d both = _mm_cvtepi32_pd(join(digits));
    const double whole = _mm_cvtsd_f64(both) * 1e8 + _mm_cvtsd_f64(_mm_unpackhi_pd(both, both));
    return place_point(shape, whole, value);
  }

  // An index, a colon and a number; false if they are not ordinary.
  template <class T>
  [[gnu::always_inline]] bool take_pair(std::uint64_t& index, T& value) noexcept {
    const char* const text = text_ + begin_;
    const std::uint64_t num_digits = _tzcnt_u64(~marks_.digits >> begin_);
    if (num_digits - 1 > 7 || text[num_digits] != ':') return false;
    begin_ += num_digits + 1;
    const Shape shape = take_shape();
    if (!shape.is_ordinary || shape.num_digits > 8) return false;
    const __m128i both = join(_mm_unpacklo_epi64(
        align(text, num_digits, 0, 8),
        align(text_ + shape.begin, shape.num_digits, shape.num_fraction, 8)));
    index = static_cast<std::uint32_t>(_mm_cvtsi128_si32(both));
    return place_point(shape, _mm_cvtsd_f64(_mm_cvtepi32_pd(_mm_shuffle_epi32(both, 1))),
                       value);
  }

  // Of what was taken.
  const char* end() const noexcept { return text_ + end_; }

 private:
  struct Shape {
    std::uint64_t negative;
    std::uint64_t begin;  // after the sign
    std::uint64_t num_digits;
    std::uint64_t num_fraction;
    bool is_ordinary;  // a digit, and then digits and a point at most
  };

  // Of the number that goes from `begin_` to `end_`.
  [[gnu::always_inline]] Shape take_shape() const noexcept {
    const std::uint64_t negative = (marks_.minuses >> begin_) & 1;
    const std::uint64_t begin = begin_ + negative;
    const std::uint64_t others = ~marks_.digits >> begin;
    const std::uint64_t num_whole = _tzcnt_u64(others);
    const std::uint64_t has_point = (marks_.points >> begin >> num_whole) & 1;
    const std::uint64_t size = end_ - begin;
    const bool is_all = _tzcnt_u64(others ^ (has_point << num_whole)) == size;
    return {.negative = negative,
            .begin = begin,
            .num_digits = size - has_point,
            .num_fraction = size - has_point - num_whole,
            .is_ordinary = is_all && num_whole != 0};
  }

  template <class T>
  [[gnu::always_inline]] static bool place_point(const Shape& shape, double whole,
                                                 T& value) noexcept {
    const double exact = whole / decimal::kExactPowers[shape.num_fraction];
    if (decimal::is_tie<T>(exact)) return false;
    using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
    const Bits sign = static_cast<Bits>(shape.negative) << (8 * sizeof(T) - 1);
    value = std::bit_cast<T>(std::bit_cast<Bits>(static_cast<T>(exact)) ^ sign);
    return true;
  }

  const char* text_;
  Marks64 marks_;
  std::uint64_t stops_;  // those that are still to come
  std::uint64_t begin_ = 0;
  std::uint64_t end_ = 0;
};

}  // namespace

template <std::floating_point T>
NumberRun read_numbers_avx2(const char* text, NumberRoom<T> room) noexcept {
  std::size_t count = 0;
  for (bool goes_on = true; goes_on && *text == ' ';) {
    goes_on = false;
    Block block(text, false);
    while (block.next()) {
      if (count == room.count || !block.take_number(room.values[count])) return {text, count};
      ++count;
      text = block.end();
      goes_on = true;
    }
  }
  return {text, count};
}

template <std::floating_point T>
NumberRun read_pairs_avx2(const char* text, std::uint64_t dimension,
                          NumberRoom<T> room) noexcept {
  std::size_t count = 0;
  for (bool goes_on = true; goes_on && *text == ' ';) {
    goes_on = false;
    Block block(text, true);
    while (block.next()) {
      std::uint64_t index = 0;
      if (count == room.count || !block.take_pair(index, room.values[count]) ||
          index >= dimension)
        return {text, count};
      room.indices[count++] = static_cast<std::int32_t>(index);
      text = block.end();
      goes_on = true;
    }
  }
  return {text, count};
}

template NumberRun read_numbers_avx2(const char*, NumberRoom<float>) noexcept;
template NumberRun read_numbers_avx2(const char*, NumberRoom<double>) noexcept;
template NumberRun read_pairs_avx2(const char*, std::uint64_t, NumberRoom<float>) noexcept;
template NumberRun read_pairs_avx2(const char*, std::uint64_t, NumberRoom<double>) noexcept;

}  // namespace sweephand::numbers
// NOLINTEND(portability-simd-intrinsics)

#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#endif
