// Integers of 64 bits kept in a narrower type: a window of chunks is memory that is made anew,
// and its pages cost more than widening the integers again when they are delivered.
#pragma once

#include "read/column_vector.hpp"

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <variant>

namespace sweephand {

// Adds the integers that are values of type T: all, or false.
template <class T>
bool append_as(std::span<const std::int64_t> integers, ColumnVector<T>& values) {
  constexpr auto kLeast = static_cast<std::uint64_t>(std::numeric_limits<T>::min());
  const std::size_t before = values.size();
  values.resize(before + integers.size());
  T* const out = values.data() + before;
  std::uint64_t all = 0;  // the bits that some have, counted from the least of T
  for (std::size_t i = 0; i < integers.size(); ++i) {
    all |= static_cast<std::uint64_t>(integers[i]) - kLeast;
    out[i] = static_cast<T>(integers[i]);
  }
  if (sizeof(T) == sizeof all || all >> (8 * sizeof(T) % 64) == 0) return true;
  values.resize(before);
  return false;
}

// Adds integers to a variant of ColumnVectors, of the narrowest type that holds these and the
// earlier ones: uint16, int32 or int64. Widens the earlier ones.
template <class Values>
void append_narrow(std::span<const std::int64_t> integers, Values& values) {
  const auto append_widened = [&]<class T>(ColumnVector<T> wide) {
    const auto copy_from = [&](const auto& narrow) {
      wide.reserve(narrow.capacity());
      wide.assign(narrow.begin(), narrow.end());
    };
    std::visit(copy_from, values);
    if (!append_as(integers, wide)) return false;
    values = std::move(wide);
    return true;
  };
  if (auto* const shorts = std::get_if<ColumnVector<std::uint16_t>>(&values)) {
    if (append_as(integers, *shorts) || append_widened(ColumnVector<std::int32_t>())) return;
  } else if (auto* const words = std::get_if<ColumnVector<std::int32_t>>(&values)) {
    if (append_as(integers, *words)) return;
  } else {
    append_as(integers, std::get<ColumnVector<std::int64_t>>(values));
    return;
  }
  append_widened(ColumnVector<std::int64_t>());
}

}  // namespace sweephand
