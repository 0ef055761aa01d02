// The types of numbers in arrays: their layout in memory, and their values.
#pragma once

#include "base/half.hpp"

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>

namespace sweephand {

enum class ElementType : std::uint8_t {
  kOpaque,  // copied, never converted: complex numbers, dates
  kBool,
  kInt8,
  kInt16,
  kInt32,
  kInt64,
  kUInt8,
  kUInt16,
  kUInt32,
  kUInt64,
  kFloat16,
  kBFloat16,
  kFloat32,
  kFloat64,
};

// Stored as it is.
template <class T>
struct Plain {
  using Stored = T;
  using Value = T;
  static constexpr int kDigits = std::numeric_limits<T>::digits;    // to base 2
  static constexpr T kLeastNormal = std::numeric_limits<T>::min();  // of floats
  static constexpr Value load(Stored stored) noexcept { return stored; }
  static constexpr Stored store(Value value) noexcept { return value; }
};

struct Bool {
  using Stored = std::uint8_t;
  using Value = std::uint8_t;
  static constexpr int kDigits = 1;
  static constexpr Value load(Stored stored) noexcept { return stored != 0 ? 1 : 0; }
  static constexpr Stored store(Value value) noexcept { return value; }
};

struct Float16 {
  using Stored = std::uint16_t;
  using Bits = std::uint16_t;
  using Value = float;
  static constexpr int kDigits = 11;
  static constexpr Value kLeastNormal = 0x1p-14F;
  static Value load(Stored stored) noexcept { return float16_to_float(stored); }
  static Stored store(Value value) noexcept { return float_to_float16(value); }
};

struct BFloat16 {
  using Stored = std::uint16_t;
  using Bits = std::uint16_t;
  using Value = float;
  static constexpr int kDigits = 8;
  static constexpr Value kLeastNormal = 0x1p-126F;
  static Value load(Stored stored) noexcept { return bfloat16_to_float(stored); }
  static Stored store(Value value) noexcept { return float_to_bfloat16(value); }
};

struct Float32 : Plain<float> {
  using Bits = std::uint32_t;
};

struct Float64 : Plain<double> {
  using Bits = std::uint64_t;
};

template <class Element>
concept StoredAsItIs = std::derived_from<Element, Plain<typename Element::Stored>>;

// Calls visit(Element{}) with the float that `type` names. REQUIRES: it names one
template <class Visit>
constexpr auto visit_float(ElementType type, const Visit& visit) {
  switch (type) {
    case ElementType::kFloat16:
      return visit(Float16{});
    case ElementType::kBFloat16:
      return visit(BFloat16{});
    case ElementType::kFloat32:
      return visit(Float32{});
    default:
      return visit(Float64{});
  }
}

// The same with any type; of opaque elements it is `otherwise`.
template <class Result, class Visit>
constexpr Result visit_element(ElementType type, Result otherwise, const Visit& visit) {
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
    default:
      return visit_float(type, visit);
  }
}

// 0 of opaque elements, which have any size.
constexpr std::size_t element_bytes(ElementType type) {
  return visit_element(type, std::size_t{0},
                       []<class Element>(Element) { return sizeof(typename Element::Stored); });
}

}  // namespace sweephand
