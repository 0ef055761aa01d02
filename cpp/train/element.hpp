// The types of numbers: how they are stored, looked at and computed with.
#pragma once

#include "base/half.hpp"
#include "train/tensor.hpp"

#include <bit>
#include <cstdint>

namespace sweephand {

struct Float16 {
  using Stored = std::uint16_t;
  using Bits = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) noexcept { return float16_to_float(stored); }
  static Stored store(Value value) noexcept { return float_to_float16(value); }
};

struct Bfloat16 {
  using Stored = std::uint16_t;
  using Bits = std::uint16_t;
  using Value = float;
  static Value load(Stored stored) noexcept { return bfloat16_to_float(stored); }
  static Stored store(Value value) noexcept { return float_to_bfloat16(value); }
};

struct Float32 {
  using Stored = float;
  using Bits = std::uint32_t;
  using Value = float;
  static Value load(Stored stored) noexcept { return stored; }
  static Stored store(Value value) noexcept { return value; }
};

struct Float64 {
  using Stored = double;
  using Bits = std::uint64_t;
  using Value = double;
  static Value load(Stored stored) noexcept { return stored; }
  static Stored store(Value value) noexcept { return value; }
};

// Calls visit(Element{}) with the element type that `type` names.
template <class Visit>
auto with_element(FloatType type, const Visit& visit) {
  switch (type) {
    case FloatType::kFloat16:
      return visit(Float16{});
    case FloatType::kBfloat16:
      return visit(Bfloat16{});
    case FloatType::kFloat32:
      return visit(Float32{});
    case FloatType::kFloat64:
      break;
  }
  return visit(Float64{});
}

// The bits of an element without its sign: their order is that of the magnitudes.
template <class Element>
typename Element::Bits magnitude(typename Element::Stored stored) noexcept {
  using Bits = typename Element::Bits;
  constexpr auto kAllButSign = static_cast<Bits>(static_cast<Bits>(~Bits{0}) >> 1);
  return static_cast<Bits>(std::bit_cast<Bits>(stored) & kAllButSign);
}

}  // namespace sweephand
