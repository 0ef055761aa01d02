// Decimal text to numbers: each is the nearest to the text, ties to even.
//
//   real = [ "+" | "-" ] digit+ [ "." digit* ] [ ( "e" | "E" ) [ "+" | "-" ] digit+ ]
//
// Digits are read eight at a time, and looked for in sixteen bytes: kDecimalPadding bytes after
// the text must be readable, and the first of them must be no digit.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sweephand {

inline constexpr std::uint64_t kDecimalPadding = 16;

// The error in a number.
enum class DecimalFault : std::uint8_t {
  kNone,
  kShape,     // not a number; `end` is the byte that is none of one
  kRange,     // beyond the largest finite value of its type
  kFraction,  // an integer was wanted
};

template <class T>
struct Decimal {
  const char* end = nullptr;  // behind the number
  T value{};
  DecimalFault fault = DecimalFault::kNone;
};

inline bool is_digit(char byte) noexcept { return byte >= '0' && byte <= '9'; }
inline bool is_e(char byte) noexcept { return byte == 'e' || byte == 'E'; }

// Eight bytes of text, the first one lowest.
class Octet {
 public:
  explicit Octet(const char* text) noexcept {
    std::memcpy(&word_, text, sizeof word_);
    if constexpr (std::endian::native == std::endian::big) word_ = __builtin_bswap64(word_);
    word_ ^= 0x3030303030303030;  // a digit is now 0 to 9, and nothing else is
  }

  // The high bit of every byte that is no digit; right up to the first, and unless a byte is
  // not ASCII up to all.
  std::uint64_t others() const noexcept {
    return (word_ | (word_ + 0x7676767676767676)) & 0x8080808080808080;
  }

  // The number that the first `count` bytes are the digits of; 1 to 4.
  std::uint64_t short_value(std::uint64_t count) const noexcept {
    auto word = static_cast<std::uint32_t>(word_) << (32 - 8 * count);
    word = word * 10 + (word >> 8);
    return (word & 0xff) * 100 + ((word >> 16) & 0xff);
  }

  // The same; 0 to 8.
  std::uint64_t value(std::uint64_t count) const noexcept {
    // Leading zeros instead of what follows, then pairs, fours and eights are joined.
    const std::uint64_t half = 32 - 4 * count;  // of the bits to go: no shift may be by 64
    std::uint64_t word = word_ << half << half;
    word = word * 10 + (word >> 8);
    return ((word & 0x000000ff000000ff) * 0x000f424000000064 +
            ((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001) >>
           32;
  }

 private:
  std::uint64_t word_ = 0;
};

// Which byte the lowest set bit is in; 8 for none.
inline std::uint64_t first_byte(std::uint64_t bits) noexcept {
  return static_cast<std::uint64_t>(std::countr_zero(bits)) / 8;
}

inline constexpr std::array<std::uint64_t, 9> kPowersOfTen = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000};

// Adds the digits from `text` on to `value`, and returns where they end. `value` wraps around
// beyond 19 digits.
[[gnu::always_inline]] inline const char* add_digits(const char* text,
                                                     std::uint64_t& value) noexcept {
  for (;;) {
    const Octet octet(text);
    const std::uint64_t others = octet.others();
    if ((others & 0x80) != 0) return text;
    const std::uint64_t count = first_byte(others);  // 8 when all are digits
    value = value * kPowersOfTen[count] + octet.value(count);
    text += count;
    if (count < 8) return text;
  }
}

// An integer without a sign.
struct Digits {
  const char* end = nullptr;  // the text itself when it begins with no digit
  std::uint64_t value = 0;    // wrapped around when there are more than 19 digits
};

[[gnu::always_inline]] inline Digits read_digits(const char* text) noexcept {
  const Octet octet(text);
  const std::uint64_t others = octet.others();
  if ((others & 0x80) != 0) return {.end = text};
  if (others != 0) {
    const std::uint64_t count = first_byte(others);
    return {.end = text + count, .value = octet.value(count)};
  }
  Digits digits{.value = octet.value(8)};
  digits.end = add_digits(text + 8, digits.value);
  return digits;
}

namespace decimal {

// The slow ways for the text of a valid number, of any length: of a floating-point number, and
// of an integer without its sign.
template <std::floating_point T>
Decimal<T> round_text(const char* text, const char* end) noexcept;
Decimal<std::uint64_t> round_to_magnitude(const char* text, const char* end) noexcept;

// digits * 10^exponent, with the sign still to come.
struct Parts {
  const char* end;
  std::uint64_t digits;
  std::int64_t exponent;
  bool valid;
  bool exact;  // the digits did not overflow
};

[[gnu::always_inline]] inline Parts read_parts(const char* text) noexcept {
  constexpr std::int64_t kMaxExponent = 1000000;  // far out of range
  const char* const first = text;
  std::uint64_t digits = 0;
  text = add_digits(text, digits);
  std::int64_t num_digits = text - first;
  std::int64_t exponent = 0;
  bool valid = num_digits > 0;
  if (*text == '.' && valid) {
    const char* const fraction = text + 1;
    text = add_digits(fraction, digits);
    exponent = fraction - text;
    num_digits -= exponent;
  }
  if (is_e(*text) && valid) {
    ++text;
    const bool negative = *text == '-';
    if (negative || *text == '+') ++text;
    valid = is_digit(*text);
    std::int64_t power = 0;
    for (; is_digit(*text); ++text) power = std::min(power * 10 + (*text - '0'), kMaxExponent);
    exponent += negative ? -power : power;
  }
  return {.end = text,
          .digits = digits,
          .exponent = exponent,
          .valid = valid,
          .exact = num_digits <= 19};
}

// Integers up to 2^53 and powers of ten up to 10^22 are exact doubles, so that one division or
// product of them is rounded once.
inline constexpr std::array<double, 23> kExactPowers = {
    1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
    1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};

inline bool is_one_operation(const Parts& parts) noexcept {
  return parts.exact && parts.digits <= (std::uint64_t{1} << 53) && parts.exponent >= -22 &&
         parts.exponent <= 22;
}

// REQUIRES: is_one_operation(parts)
inline double do_operation(const Parts& parts) noexcept {
  const auto value = static_cast<double>(static_cast<std::int64_t>(parts.digits));
  // One of the two is 1, which is cheaper than a branch that is hard to foretell.
  const std::int64_t zero = 0;
  return value * kExactPowers[static_cast<std::uint64_t>(std::max(parts.exponent, zero))] /
         kExactPowers[static_cast<std::uint64_t>(std::max(-parts.exponent, zero))];
}

// Whether the nearest double leaves a number of type T undecided. Rounding to double and
// then to float is right unless the double lies exactly between two floats: rounding keeps
// order and such midpoints are doubles, so any other double is on the same side of them as the
// text. REQUIRES: it is a normal float or zero, where the midpoints end in a one and 28 zeros
template <std::floating_point T>
bool is_tie(double value) noexcept {
  return std::same_as<T, float> &&
         (std::bit_cast<std::uint64_t>(value) & 0x1fffffff) == 0x10000000;
}

// The non-digits and points among sixteen bytes of text; bit i for byte i.
struct Marks {
  std::uint32_t others;  // no digits
  std::uint32_t points;
};

[[gnu::always_inline]] inline Marks mark(const char* text) noexcept {
#ifdef __SSE2__
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
  // Digits become the least of all numbers.
  // NOLINTNEXTLINE(portability-simd-intrinsics): the portable way is below
  const __m128i moved = _mm_add_epi8(bytes, _mm_set1_epi8(static_cast<char>(0x80 - '0')));
  const __m128i others = _mm_cmpgt_epi8(moved, _mm_set1_epi8(static_cast<char>(0x80 + 9)));
  const __m128i points = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('.'));
  return {.others = static_cast<std::uint32_t>(_mm_movemask_epi8(others)),
          .points = static_cast<std::uint32_t>(_mm_movemask_epi8(points))};
#else
  Marks marks{};
  for (unsigned i = 0; i < 16; ++i) {
    marks.others |= static_cast<std::uint32_t>(!is_digit(text[i])) << i;
    marks.points |= static_cast<std::uint32_t>(text[i] == '.') << i;
  }
  return marks;
#endif
}

// The number that begins at byte `begin` of those that were marked, if it ends within them and
// has at most eight digits before the point and eight after it; else the end is null. Without
// branches that depend on its digits or its sign, and without rounding more than once.
template <std::floating_point T>
[[gnu::always_inline]] inline Decimal<T> read_marked(const char* text, Marks marks,
                                                     std::uint32_t begin) noexcept {
  const bool negative = text[begin] == '-';
  begin += negative ? 1 : 0;
  const std::uint32_t others = marks.others & (~std::uint32_t{0} << begin);
  const std::uint32_t first_other = others & (0 - others);
  const std::uint32_t point = first_other & marks.points;
  const std::uint32_t rest = others ^ point;
  if (rest == 0 || first_other == std::uint32_t{1} << begin) return {};
  const auto first = static_cast<std::uint32_t>(std::countr_zero(others));
  const auto end = static_cast<std::uint32_t>(std::countr_zero(rest));
  const std::uint32_t num_whole = first - begin;
  const std::uint32_t num_fraction = end - first - (point != 0 ? 1 : 0);
  if (num_whole > 8 || num_fraction > 8 || is_e(text[end])) return {};
  const std::uint64_t digits =
      Octet(text + begin).value(num_whole) * kPowersOfTen[num_fraction] +
      Octet(text + first + 1).value(num_fraction);
  const double value =
      static_cast<double>(static_cast<std::int64_t>(digits)) / kExactPowers[num_fraction];
  if (is_tie<T>(value)) return {};
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const Bits sign = static_cast<Bits>(negative) << (8 * sizeof(T) - 1);
  return {.end = text + end,
          .value = std::bit_cast<T>(std::bit_cast<Bits>(static_cast<T>(value)) ^ sign)};
}

template <std::floating_point T>
Decimal<T> read_long(const char* text) noexcept {
  const bool negative = *text == '-';
  const Parts parts = read_parts(text + (negative || *text == '+' ? 1 : 0));
  if (!parts.valid) return {.end = parts.end, .fault = DecimalFault::kShape};
  if (!is_one_operation(parts)) return round_text<T>(text, parts.end);
  const double value = do_operation(parts);
  if (is_tie<T>(value)) return round_text<T>(text, parts.end);
  return {.end = parts.end, .value = static_cast<T>(negative ? -value : value)};
}

}  // namespace decimal

template <std::floating_point T>
[[gnu::always_inline]] inline Decimal<T> read_number(const char* text) noexcept {
  const Decimal<T> number = decimal::read_marked<T>(text, decimal::mark(text), 0);
  return number.end == nullptr ? decimal::read_long<T>(text) : number;
}

// "1.0" and "1e2" are integers, "1.5" is not.
template <std::integral T>
Decimal<T> read_number(const char* text) noexcept {
  const bool negative = *text == '-';
  const bool is_signed = negative || *text == '+';
  const decimal::Parts parts = decimal::read_parts(text + (is_signed ? 1 : 0));
  if (!parts.valid) return {.end = parts.end, .fault = DecimalFault::kShape};
  std::uint64_t magnitude = parts.digits;
  if (!parts.exact || parts.exponent != 0) {
    const Decimal<std::uint64_t> slow =
        decimal::round_to_magnitude(text + (is_signed ? 1 : 0), parts.end);
    if (slow.fault != DecimalFault::kNone) return {.end = slow.end, .fault = slow.fault};
    magnitude = slow.value;
  }
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  const std::uint64_t least = std::signed_integral<T> ? most + 1 : 0;  // without its sign
  if (magnitude > (negative ? least : most))
    return {.end = parts.end, .fault = DecimalFault::kRange};
  // Negation wraps around, also for the least value of all.
  return {.end = parts.end, .value = static_cast<T>(negative ? 0 - magnitude : magnitude)};
}

}  // namespace sweephand
