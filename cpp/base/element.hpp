// The types of numbers that arrays hold.
#pragma once

#include <cstdint>

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

}  // namespace sweephand
