// Cells of tables of text: each is the same number among others and alone, integers are exact,
// and fractions are what the C library rounds to.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "formats/numbers.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

constexpr std::array kTypes = {
    ElementType::kBool,    ElementType::kInt8,   ElementType::kUInt16,  ElementType::kInt32,
    ElementType::kInt64,   ElementType::kUInt64, ElementType::kFloat16, ElementType::kBFloat16,
    ElementType::kFloat32, ElementType::kFloat64};

template <class T>
T value_at(const TextNumbers& found, std::size_t cell) {
  T value{};
  std::memcpy(&value, found.values.data() + cell * sizeof(T), sizeof(T));
  return value;
}

bool is_fine(const TextNumbers& found, std::size_t cell) { return found.faults[cell] == 0; }

// The same without the other cells, in a buffer of its very size.
void check_alone(const TextNumbers& all, std::size_t cell, std::span<const char> text,
                 ElementType type) {
  const std::vector<char> own(text.begin(), text.end());
  const std::array<std::int64_t, 2> offsets = {0, static_cast<std::int64_t>(own.size())};
  const TextNumbers found = read_text_numbers(own, offsets, type);
  const std::size_t width = element_bytes(stored_as(type));
  CHECK(found.faults.front() == all.faults[cell]);
  CHECK(found.values.size() == width);
  CHECK(std::equal(found.values.begin(), found.values.end(),
                   all.values.begin() + static_cast<std::ptrdiff_t>(cell * width)));
}

// What is an integer of 64 bits and a float as well is the same in both.
void check_floats(const TextNumbers& integers, const TextNumbers& floats, std::size_t cell,
                  std::span<const char> text) {
  if (!is_fine(floats, cell)) return;
  const auto value = value_at<double>(floats, cell);
  if (is_fine(integers, cell)) {
    const auto whole = value_at<std::int64_t>(integers, cell);
    CHECK(static_cast<long double>(whole) == static_cast<long double>(value));
    return;
  }
  const std::string copy(text.begin(), text.end());
  const double expected = std::strtod(copy.c_str(), nullptr);
  CHECK(std::isnan(value) == std::isnan(expected));
  if (!std::isnan(value))
    CHECK(std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(expected));
}

void run(Input input) {
  const auto* const first = reinterpret_cast<const char*>(input.data());
  const std::vector<char> text(first, first + input.size());
  std::vector<std::int64_t> cells = {0};  // commas are cells of their own
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] != ',') continue;
    cells.push_back(static_cast<std::int64_t>(at));
    cells.push_back(static_cast<std::int64_t>(at + 1));
  }
  cells.push_back(static_cast<std::int64_t>(text.size()));
  std::vector<TextNumbers> found;
  for (const ElementType type : kTypes) {
    found.push_back(read_text_numbers(text, cells, type));
    CHECK(found.back().faults.size() == cells.size() - 1);
    CHECK(found.back().values.size() == (cells.size() - 1) * element_bytes(stored_as(type)));
  }
  for (std::size_t i = 0; i + 1 < cells.size(); ++i) {
    const auto begin = static_cast<std::size_t>(cells[i]);
    const auto cell =
        std::span(text).subspan(begin, static_cast<std::size_t>(cells[i + 1]) - begin);
    const std::size_t type = i % kTypes.size();
    check_alone(found[type], i, cell, kTypes[type]);
    check_floats(found[4], found[9], i, cell);
  }
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
