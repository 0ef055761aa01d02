// Decimal numbers: whatever the text, the end and the value are those that the C library finds
// for the part of it that the grammar allows.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "formats/decimal.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string>
#include <type_traits>

namespace sweephand {
namespace {

const char* skip_digits(const char* text) {
  while (is_digit(*text)) ++text;
  return text;
}

// Where the number that begins at `text` ends, or the byte that is none of one.
const char* end_of(const char* text, bool& is_number) {
  if (*text == '+' || *text == '-') ++text;
  const char* end = skip_digits(text);
  is_number = end != text;
  if (!is_number) return end;
  if (*end == '.') end = skip_digits(end + 1);
  if (!is_e(*end)) return end;
  ++end;
  if (*end == '+' || *end == '-') ++end;
  is_number = is_digit(*end);
  return skip_digits(end);
}

template <class T>
T round_by_library(const std::string& text) {
  if constexpr (std::same_as<T, float>) return std::strtof(text.c_str(), nullptr);
  return static_cast<T>(std::strtod(text.c_str(), nullptr));
}

template <std::floating_point T>
void check_value(const Decimal<T>& found, const std::string& text) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  const T expected = round_by_library<T>(text);
  CHECK((found.fault == DecimalFault::kRange) == std::isinf(expected));
  if (found.fault == DecimalFault::kNone)
    CHECK(std::bit_cast<Bits>(found.value) == std::bit_cast<Bits>(expected));
  CHECK(found.fault != DecimalFault::kFraction);
}

// 64 bits and a sign fit into a long double of 80 bits.
template <std::integral T>
void check_value(const Decimal<T>& found, const std::string& text) {
  if constexpr (std::numeric_limits<long double>::digits < 64) return;
  const long double expected = std::strtold(text.c_str(), nullptr);
  const bool is_inside = expected >= static_cast<long double>(std::numeric_limits<T>::min()) &&
                         expected <= static_cast<long double>(std::numeric_limits<T>::max());
  if (found.fault == DecimalFault::kNone)
    CHECK(static_cast<long double>(found.value) == expected);
  if (!is_inside) CHECK(found.fault != DecimalFault::kNone);
}

template <class T>
void check_number(const char* text) {
  bool is_number = false;
  const char* const end = end_of(text, is_number);
  const Decimal<T> found = read_number<T>(text);
  CHECK((found.fault == DecimalFault::kShape) == !is_number);
  CHECK(found.end == end);
  if (is_number) check_value(found, std::string(text, end));
}

void run(Input input) {
  std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  text.append(kDecimalPadding, '\n');
  const std::string exact = text;
  const char* const last = exact.data() + input.size();
  for (const char* line = exact.data(); line < last; line = std::find(line, last, '\n') + 1) {
    check_number<float>(line);
    check_number<double>(line);
    check_number<std::int8_t>(line);
    check_number<std::uint16_t>(line);
    check_number<std::int32_t>(line);
    check_number<std::int64_t>(line);
    check_number<std::uint64_t>(line);
  }
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
