#include "engine/convert.hpp"

#include "base/half.hpp"

#include <cmath>
#include <concepts>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>

namespace sweephand {
namespace {

// How elements lie in memory, and the number that each of them is.
template <class T>
struct Plain {
  using Stored = T;
  using Number = T;
  static constexpr Number load(Stored stored) noexcept { return stored; }
  static constexpr Stored store(Number number) noexcept { return number; }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Number = float;
  static Number load(Stored stored) noexcept { return float16_to_float(stored); }
  static Stored store(Number number) noexcept { return float_to_float16(number); }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  using Number = float;
  static Number load(Stored stored) noexcept { return bfloat16_to_float(stored); }
  static Stored store(Number number) noexcept { return float_to_bfloat16(number); }
};

struct Bool {
  using Stored = std::uint8_t;
  using Number = std::uint8_t;
  static constexpr Number load(Stored stored) noexcept { return stored != 0 ? 1 : 0; }
  static constexpr Stored store(Number number) noexcept { return number; }
};

// Calls `visit` with the way of storing that `type` names; `otherwise` is what it gives for
// opaque elements.
template <class Visit, class Result>
Result visit_type(ElementType type, Result otherwise, Visit&& visit) {
  switch (type) {
    case ElementType::kOpaque:
      return otherwise;
    case ElementType::kBool:
      return visit(Bool{});
    case ElementType::kInt8:
      return visit(Plain<std::int8_t>{});
    case ElementType::kInt16:
      return visit(Plain<std::int16_t>{});
    case ElementType::kInt32:
      return visit(Plain<std::int32_t>{});
    case ElementType::kInt64:
      return visit(Plain<std::int64_t>{});
    case ElementType::kUInt8:
      return visit(Plain<std::uint8_t>{});
    case ElementType::kUInt16:
      return visit(Plain<std::uint16_t>{});
    case ElementType::kUInt32:
      return visit(Plain<std::uint32_t>{});
    case ElementType::kUInt64:
      return visit(Plain<std::uint64_t>{});
    case ElementType::kFloat16:
      return visit(Float16{});
    case ElementType::kBFloat16:
      return visit(BFloat16{});
    case ElementType::kFloat32:
      return visit(Plain<float>{});
    case ElementType::kFloat64:
      return visit(Plain<double>{});
  }
  return otherwise;
}

// Whether `number` is the same as To::Number, or near enough: docs of convert.
template <class To, class From>
bool representable(From number) noexcept {
  using Target = typename To::Number;
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
  } else if constexpr (std::integral<From>) {
    return std::isfinite(static_cast<float>(To::load(To::store(static_cast<Target>(number)))));
  } else {
    if (!std::isfinite(number)) return true;
    return std::isfinite(To::load(To::store(static_cast<Target>(number))));
  }
}

// Nothing can be lost: no element needs to be looked at.
template <class From, class To>
constexpr bool kAlwaysFits = [] {
  using Source = typename From::Number;
  using Target = typename To::Number;
  if constexpr (std::same_as<From, To> || std::same_as<From, Bool>) {
    return true;
  } else if constexpr (std::same_as<To, Bool> ||
                       (std::integral<Target> && !std::integral<Source>)) {
    return false;
  } else if constexpr (std::integral<Target>) {
    return std::in_range<Target>(std::numeric_limits<Source>::min()) &&
           std::in_range<Target>(std::numeric_limits<Source>::max());
  } else {
    return sizeof(typename To::Stored) >= 4 &&
           (std::integral<Source> || sizeof(Target) >= sizeof(Source));
  }
}();

template <class From, class To>
std::optional<std::size_t> convert_all(const std::byte* from, std::byte* to,
                                       std::size_t count) {
  using Source = typename From::Stored;
  using Target = typename To::Stored;
  for (std::size_t i = 0; i < count; ++i) {
    Source stored;
    std::memcpy(&stored, from + i * sizeof(Source), sizeof(Source));
    const auto number = From::load(stored);
    if constexpr (!kAlwaysFits<From, To>) {
      if (!representable<To>(number)) return i;
    }
    const Target target = To::store(static_cast<typename To::Number>(number));
    std::memcpy(to + i * sizeof(Target), &target, sizeof(Target));
  }
  return std::nullopt;
}

}  // namespace

bool convertible(ElementType from, ElementType to) noexcept {
  return from != ElementType::kOpaque && to != ElementType::kOpaque;
}

std::optional<std::size_t> convert(ElementType from_type, const std::byte* from,
                                   ElementType to_type, std::byte* to, std::size_t count) {
  using Result = std::optional<std::size_t>;
  return visit_type(from_type, Result{0}, [&](auto from_way) {
    return visit_type(to_type, Result{0}, [&](auto to_way) {
      return convert_all<decltype(from_way), decltype(to_way)>(from, to, count);
    });
  });
}

}  // namespace sweephand
