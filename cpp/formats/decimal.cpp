#include "formats/decimal.hpp"

#include <charconv>
#include <span>
#include <system_error>
#ifndef __cpp_lib_to_chars
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <string>
#ifdef __APPLE__
#include <xlocale.h>
#endif
#endif

namespace sweephand::decimal {
namespace {

// The digits of a number without its exponent, and the power of ten of the last of them.
struct Mantissa {
  const char* begin;
  const char* end;
  std::int64_t exponent;
};

Mantissa find_mantissa(const char* text, const char* end) noexcept {
  // No number of digits that fits in memory makes up for such an exponent.
  constexpr std::int64_t kMaxExponent = 100'000'000'000'000'000;
  const char* const digits_end = std::find_if(text, end, is_e);
  const char* const point = std::find(text, digits_end, '.');
  std::int64_t exponent = point == digits_end ? 0 : point + 1 - digits_end;
  if (digits_end != end) {
    const char* p = digits_end + 1;
    const bool negative = *p == '-';
    if (negative || *p == '+') ++p;
    std::int64_t power = 0;
    for (; p != end; ++p) power = std::min(power * 10 + (*p - '0'), kMaxExponent);
    exponent += negative ? -power : power;
  }
  return {.begin = text, .end = digits_end, .exponent = exponent};
}

// True if the first digit that is not zero is left of the decimal point.
bool at_least_one(const char* text, const char* end) noexcept {
  const Mantissa digits = find_mantissa(text, end);
  const auto nonzero = [](char byte) { return byte >= '1' && byte <= '9'; };
  const char* const first = std::find_if(digits.begin, digits.end, nonzero);
  return std::count_if(first, digits.end, is_digit) + digits.exponent > 0;
}

#ifdef __cpp_lib_to_chars

// Finds the number nearest to the text; false if there is none.
template <class T>
bool find_nearest(const char* text, const char* end, T& value) noexcept {
  return std::from_chars(text, end, value).ec != std::errc::result_out_of_range;
}

#else  // a library whose from_chars knows integers alone

template <class T>
bool find_nearest(const char* text, const char* end, T& value) noexcept {
  static const ::locale_t plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  const std::string copy(text, end);
  if constexpr (std::same_as<T, float>) {
    value = ::strtof_l(copy.c_str(), nullptr, plain);
  } else {
    value = ::strtod_l(copy.c_str(), nullptr, plain);
  }
  return std::isfinite(value);
}

#endif

}  // namespace

template <std::floating_point T>
Decimal<T> round_text(const char* text, const char* end) noexcept {
  const bool negative = *text == '-';
  if (*text == '+') ++text;  // which from_chars does not know
  Decimal<T> result{.end = end};
  if (!find_nearest(text, end, result.value)) {
    // Too large, or nearer to zero than to the smallest subnormal.
    if (at_least_one(text, end)) return {.end = end, .fault = DecimalFault::kRange};
    result.value = negative ? -T{0} : T{0};
  }
  return result;
}

template Decimal<float> round_text(const char* text, const char* end) noexcept;
template Decimal<double> round_text(const char* text, const char* end) noexcept;

Decimal<std::uint64_t> round_to_magnitude(const char* text, const char* end) noexcept {
  constexpr auto kMost = std::numeric_limits<std::uint64_t>::max();
  const Mantissa digits = find_mantissa(text, end);
  std::int64_t left = std::count_if(digits.begin, digits.end, is_digit) + digits.exponent;
  Decimal<std::uint64_t> result{.end = end};  // `left` of its digits are still to come
  const auto append = [&](std::uint64_t digit) {
    if (result.value > (kMost - digit) / 10) result.fault = DecimalFault::kRange;
    if (result.fault == DecimalFault::kNone) result.value = result.value * 10 + digit;
    --left;
  };
  for (const char byte : std::span(digits.begin, digits.end)) {
    if (left > 0 && is_digit(byte)) {
      append(static_cast<std::uint64_t>(byte - '0'));
    } else if (byte != '0' && byte != '.') {
      return {.end = end, .fault = DecimalFault::kFraction};
    }
  }
  while (left > 0 && result.value != 0 && result.fault == DecimalFault::kNone) append(0);
  return result;
}

}  // namespace sweephand::decimal
