// Numbers of 16 bits to float and back, rounded to the nearest, ties to even.
//
//   float16   s eeeee mmmmmmmmmm          (IEEE 754 binary16)
//   bfloat16  s eeeeeeee mmmmmmm          (the upper half of a float)
//
// A NaN keeps its sign and the upper bits of its payload and becomes quiet, as the F16C
// instructions do it, so that both ways give the same bits.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace sweephand {

constexpr float float16_to_float(std::uint16_t half) noexcept {
  constexpr std::uint32_t kExponent = 0x7c00U << 13;
  const std::uint32_t sign = (half & 0x8000U) << 16;
  const std::uint32_t rest = (half & 0x7fffU) << 13;
  std::uint32_t bits = rest + (112U << 23);  // 127 - 15: the exponents' biases
  if (rest >= kExponent) {
    bits = rest + (224U << 23);
    if (rest > kExponent) bits |= 1U << 22;
  } else if (rest < (1U << 23)) {  // subnormal: no hidden bit, so add it and take it away
    const auto raised = std::bit_cast<float>(rest + (113U << 23));
    bits = std::bit_cast<std::uint32_t>(raised - std::bit_cast<float>(113U << 23));
  }
  return std::bit_cast<float>(sign | bits);
}

constexpr std::uint16_t float_to_float16(float value) noexcept {
  const auto all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (all >> 16) & 0x8000U;
  const std::uint32_t rest = all & 0x7fffffffU;
  std::uint32_t bits = 0;
  if (rest > 0x7f800000U) {
    bits = 0x7e00U | ((rest >> 13) & 0x3ffU);
  } else if (rest >= (143U << 23)) {  // 2^16 and above
    bits = 0x7c00U;
  } else if (rest < (113U << 23)) {  // below 2^-14: 0.5 has its last bit at 2^-24
    bits = std::bit_cast<std::uint32_t>(std::bit_cast<float>(rest) + 0.5F) - 0x3f000000U;
  } else {
    bits = (rest - (112U << 23) + 0xfffU + ((rest >> 13) & 1U)) >> 13;
  }
  return static_cast<std::uint16_t>(sign | bits);
}

constexpr float bfloat16_to_float(std::uint16_t half) noexcept {
  return std::bit_cast<float>(static_cast<std::uint32_t>(half) << 16);
}

constexpr std::uint16_t float_to_bfloat16(float value) noexcept {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7fffffffU) > 0x7f800000U) {
    return static_cast<std::uint16_t>((bits >> 16) | 0x40U);
  }
  return static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16);
}

// Whole arrays, by the instructions of the machine where it has them.
// REQUIRES: both sides are of one size
void widen_float16(std::span<const std::uint16_t> halves, std::span<float> floats) noexcept;
void round_to_float16(std::span<const float> floats, std::span<std::uint16_t> halves) noexcept;

}  // namespace sweephand
