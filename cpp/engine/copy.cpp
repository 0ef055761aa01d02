#include "engine/copy.hpp"

#include "base/cpu.hpp"

#include <bit>
#include <cmath>
#include <concepts>
#include <limits>
#include <type_traits>
#include <utility>

namespace sweephand {
namespace {

// A double as a float for one more rounding: a value between two floats gets the one whose last
// bit is set, which is never halfway between two narrower numbers, so that rounding twice is
// rounding once.
float round_to_odd(double number) noexcept {
  const auto nearest = static_cast<float>(number);
  if (!(std::abs(number) <= std::numeric_limits<double>::max()) || nearest == number)
    return nearest;  // infinite, not a number, or exact
  auto bits = std::bit_cast<std::uint32_t>(nearest);
  if (std::abs(static_cast<double>(nearest)) > std::abs(number)) --bits;  // towards zero
  return std::bit_cast<float>(bits | 1U);
}

// True if the bits of an integer, from its first to its last that is set, fit a float of
// `digits` digits.
template <std::integral From>
constexpr bool has_digits(From number, int digits) noexcept {
  const auto wide = static_cast<std::uint64_t>(number);
  const std::uint64_t magnitude = number < From{0} ? 0 - wide : wide;
  const std::uint64_t last = magnitude & (0 - magnitude);
  const std::uint64_t above = magnitude >> static_cast<unsigned>(digits);
  return above == 0 || above < last;
}

// The value of `number` in the target's type, before it is stored.
template <class To, class From>
typename To::Value as_number(From number) noexcept {
  if constexpr (sizeof(typename To::Stored) == 2 && std::same_as<From, double> &&
                std::floating_point<typename To::Value>) {
    return round_to_odd(number);
  } else {
    return static_cast<typename To::Value>(number);
  }
}

// True if `number` is the same as To::Value, or near enough: docs of convert.
template <class To, class From>
bool representable(From number) noexcept {
  using Target = typename To::Value;
  if constexpr (std::same_as<To, Bool>) {
    return number == From{0} || number == From{1};
  } else if constexpr (std::integral<Target> && std::integral<From>) {
    return std::in_range<Target>(number);
  } else if constexpr (std::integral<Target>) {
    // 2^digits is exact in any float type that is wide enough, and one more than the largest
    // integer.
    const double value = number;
    const double bound = std::ldexp(1.0, std::numeric_limits<Target>::digits);
    const double least = std::signed_integral<Target> ? -bound : 0.0;
    return value >= least && value < bound && std::trunc(value) == value;
  } else if constexpr (std::same_as<To, Float16> && std::integral<From>) {
    constexpr int kBeyond = 1 << 16;  // no integer of eleven digits is between 65504 and it
    return has_digits(number, To::kDigits) && std::cmp_less(number, kBeyond) &&
           std::cmp_greater(number, -kBeyond);
  } else if constexpr (std::integral<From>) {
    return has_digits(number, To::kDigits);
  } else {
    if (!std::isfinite(number)) return true;
    return std::isfinite(To::load(To::store(as_number<To>(number))));
  }
}

// True if no conversion can lose anything: elements are not checked.
template <class From, class To>
constexpr bool kAlwaysFits = [] {
  using Source = typename From::Value;
  using Target = typename To::Value;
  if constexpr (std::same_as<From, To> || std::same_as<From, Bool>) {
    return true;
  } else if constexpr (std::same_as<To, Bool> ||
                       (std::integral<Target> && !std::integral<Source>)) {
    return false;
  } else if constexpr (std::integral<Target>) {
    return std::in_range<Target>(std::numeric_limits<Source>::min()) &&
           std::in_range<Target>(std::numeric_limits<Source>::max());
  } else {
    // Of 16 bits, a float has fewer digits or less range than the other.
    return std::integral<Source>
               ? From::kDigits <= To::kDigits
               : sizeof(typename To::Stored) >= 4 && sizeof(Target) >= sizeof(Source);
  }
}();

template <class Way>
[[gnu::always_inline]] inline typename Way::Value load(const std::byte* from,
                                                       std::size_t i) noexcept {
  typename Way::Stored stored;
  std::memcpy(&stored, from + i * sizeof stored, sizeof stored);
  return Way::load(stored);
}

template <class To, class Number>
[[gnu::always_inline]] inline void store(Number number, std::byte* to, std::size_t i) noexcept {
  const typename To::Stored target = To::store(as_number<To>(number));
  std::memcpy(to + i * sizeof target, &target, sizeof target);
}

// The integers `number` for which number + offset, as an unsigned integer of the same size, has
// no more than `digits` digits are exact in the target.
struct Small {
  std::uint64_t offset = 0;
  unsigned digits = 0;
};

template <class From, class To>
constexpr Small small() noexcept {
  using Source = typename From::Value;
  using Target = typename To::Value;
  const unsigned digits = std::min(From::kDigits, To::kDigits);
  if (std::unsigned_integral<Source> || std::unsigned_integral<Target>)
    return {.offset = 0, .digits = digits};
  const unsigned with_sign = digits + (std::integral<Target> ? 1 : 0);
  return {.offset = std::uint64_t{1} << (with_sign - 1), .digits = with_sign};
}

// Stores integers, and returns true if they are small enough that each fits: one test for
// several, as most are.
template <class From, class To>
[[gnu::always_inline]] inline bool store_small(const std::byte* from, std::byte* to,
                                               std::size_t begin, std::size_t end) noexcept {
  using Bits = std::make_unsigned_t<typename From::Value>;
  constexpr Small kSmall = small<From, To>();
  Bits all = 0;
  for (std::size_t i = begin; i < end; ++i) {
    const auto number = load<From>(from, i);
    const auto bits = static_cast<Bits>(number);
    all = static_cast<Bits>(all | static_cast<Bits>(bits + static_cast<Bits>(kSmall.offset)));
    store<To>(number, to, i);
  }
  return all >> kSmall.digits == 0;
}

template <class From, class To>
[[gnu::always_inline]] inline std::optional<std::size_t> convert_run(const std::byte* from,
                                                                     std::byte* to,
                                                                     std::size_t begin,
                                                                     std::size_t end) noexcept {
  for (std::size_t i = begin; i < end; ++i) {
    const auto number = load<From>(from, i);
    if constexpr (!kAlwaysFits<From, To>) {
      if (!representable<To>(number)) return i;
    }
    store<To>(number, to, i);
  }
  return std::nullopt;
}

template <class From, class To>
[[gnu::always_inline]] inline std::optional<std::size_t> convert_all(const std::byte* from,
                                                                     std::byte* to,
                                                                     std::size_t count) {
  constexpr bool kMayBeSmall =
      !kAlwaysFits<From, To> && std::integral<typename From::Value> && !std::same_as<To, Bool>;
  if constexpr (kMayBeSmall) {
    constexpr std::size_t kRun = 512;  // that a large number makes slow
    for (std::size_t begin = 0; begin < count; begin += kRun) {
      const std::size_t end = std::min(count, begin + kRun);
      if (store_small<From, To>(from, to, begin, end)) continue;
      if (const auto refused = convert_run<From, To>(from, to, begin, end)) return refused;
    }
    return std::nullopt;
  } else {
    return convert_run<From, To>(from, to, 0, count);
  }
}

// The same with wider instructions.
template <class From, class To>
[[gnu::target("avx2")]] std::optional<std::size_t> convert_avx2(const std::byte* from,
                                                                std::byte* to,
                                                                std::size_t count) {
  return convert_all<From, To>(from, to, count);
}

template <class From, class To>
[[gnu::target("avx512f,avx512bw")]] std::optional<std::size_t> convert_avx512(
    const std::byte* from, std::byte* to, std::size_t count) {
  return convert_all<From, To>(from, to, count);
}

std::optional<std::size_t> refuse(const std::byte* /*from*/, std::byte* /*to*/,
                                  std::size_t /*count*/) {
  return 0;
}

}  // namespace

Convert* converter(ElementType from_type, ElementType to_type) {
  return visit_element(from_type, &refuse, [&](auto from_way) {
    return visit_element(to_type, &refuse, [](auto to_way) -> Convert* {
      using From = decltype(from_way);
      using To = decltype(to_way);
      // A conversion with a call for each number gains nothing.
      if constexpr (std::integral<typename From::Value> &&
                    (std::integral<typename To::Value> || StoredAsItIs<To>)) {
        if (cpu().avx512) return convert_avx512<From, To>;
        if (cpu().avx2) return convert_avx2<From, To>;
      }
      return convert_all<From, To>;
    });
  });
}

}  // namespace sweephand
