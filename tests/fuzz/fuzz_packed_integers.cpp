// Packed integers of an index: whatever the bytes, they are refused, or every value can be
// read, in any ranges; what is packed is read again.
//
// The first two bytes of an input are the number of values.
#include "../cpp/check.hpp"
#include "base/little_endian.hpp"
#include "driver.hpp"
#include "index/packed_integers.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

namespace sweephand {
namespace {

using Values = std::vector<std::uint64_t>;

template <class T = std::uint64_t>
std::vector<T> read(const PackedIntegers& packed, std::uint64_t first, std::uint64_t count) {
  std::vector<T> values(count);
  packed.read(first, std::span(values));
  return values;
}

Values all_of(const PackedIntegers& packed) { return read(packed, 0, packed.size()); }

std::optional<PackedIntegers> open(Input bytes, std::uint64_t count) {
  try {
    return PackedIntegers(bytes, count, std::make_shared<int>());
  } catch (const std::invalid_argument&) {
    return std::nullopt;
  }
}

// Every range, of which a few are read, is the part of the whole.
void check_ranges(const PackedIntegers& packed) {
  const Values all = all_of(packed);
  const std::uint64_t step = packed.size() / 3 + 1;
  for (std::uint64_t first = 0; first < packed.size(); first += step) {
    const std::uint64_t count = std::min(step, packed.size() - first);
    CHECK(std::ranges::equal(read(packed, first, count), std::span(all).subspan(first, count)));
    const auto bytes = read<std::uint8_t>(packed, first, count);
    const auto words = read<std::uint32_t>(packed, first, count);
    for (std::uint64_t i = 0; i < count; ++i) {
      CHECK(bytes[i] == static_cast<std::uint8_t>(all[first + i]));
      CHECK(words[i] == static_cast<std::uint32_t>(all[first + i]));
    }
  }
}

PackedIntegers packed_of(const Values& values) {
  PackedIntegers packed;
  for (const std::uint64_t value : values) packed.push_back(value);
  return packed;
}

void check_again(const Values& values) {
  const PackedIntegers packed = packed_of(values);
  CHECK(all_of(packed) == values);
  const auto bytes = packed.bytes();
  const std::vector<std::byte> exact(
      reinterpret_cast<const std::byte*>(bytes.data()),
      reinterpret_cast<const std::byte*>(bytes.data()) + bytes.size());
  const auto again = open(exact, values.size());
  CHECK(again && all_of(*again) == values && again->bytes() == bytes);

  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  PackedIntegers joined = packed_of({values.begin(), middle});
  joined.append(packed_of({middle, values.end()}), 0);
  CHECK(joined.bytes() == bytes);
}

// The input itself as values: words, and small steps.
Values words_of(Input input) {
  Values words;
  for (; input.size() >= 8; input = input.subspan(8))
    words.push_back(load_le64(input.first<8>()));
  return words;
}

Values steps_of(Input input) {
  Values values;
  std::uint64_t value = 0;
  for (const std::byte one : input) values.push_back(value += std::to_integer<unsigned>(one));
  return values;
}

void run(Input input) {
  if (input.size() < 2) return;
  const std::uint64_t count =
      std::to_integer<unsigned>(input[0]) | std::to_integer<unsigned>(input[1]) << 8U;
  const std::vector<std::byte> bytes(input.begin() + 2, input.end());
  if (const auto packed = open(bytes, count)) {
    CHECK(packed->size() == count);
    check_ranges(*packed);
    check_again(all_of(*packed));
  }
  CHECK(!open(bytes, ~std::uint64_t{count}));  // more than any bytes hold
  check_again(words_of(bytes));
  check_again(steps_of(bytes));
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
