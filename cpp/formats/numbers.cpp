#include "formats/numbers.hpp"

#include "base/cpu.hpp"
#include "formats/decimal.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace sweephand {
namespace {

// A cell's value, and its fault, if any.
template <class T>
struct Cell {
  T value{};
  CellFault fault = CellFault::kNone;
};

// A number without its sign, followed by padding for parsers that read ahead.
class PaddedText {
 public:
  explicit PaddedText(std::string_view text) {
    if (text.size() > kShort) {
      long_.assign(text);
      long_.append(kDecimalPadding, '\0');
      begin_ = long_.data();
    } else {
      std::copy(text.begin(), text.end(), short_.begin());
      std::memset(short_.data() + text.size(), 0, kDecimalPadding);
      begin_ = short_.data();
    }
    end_ = begin_ + text.size();
  }

  const char* begin() const noexcept { return begin_; }
  const char* end() const noexcept { return end_; }

 private:
  static constexpr std::size_t kShort = 48;

  std::array<char, kShort + kDecimalPadding> short_;  // written as far as it is read
  std::string long_;
  const char* begin_ = nullptr;
  const char* end_ = nullptr;
};

std::string_view without_blanks(std::string_view text) {
  const auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

bool is_same_word(std::string_view text, std::string_view lower) {
  return std::ranges::equal(text, lower, [](char one, char wanted) {
    return (one >= 'A' && one <= 'Z' ? static_cast<char>(one - 'A' + 'a') : one) == wanted;
  });
}

bool is_true(std::string_view text) {
  return text == "true" || text == "True" || text == "TRUE";
}

bool is_false(std::string_view text) {
  return text == "false" || text == "False" || text == "FALSE";
}

bool is_integer(std::string_view digits) {
  return !digits.empty() && std::ranges::all_of(digits, is_digit);
}

// True if a text without its sign is a decimal fraction: the form of read_number, or ".5".
bool is_decimal(std::string_view text) {
  const auto take_digits = [&text] {
    const auto size = std::min(text.find_first_not_of("0123456789"), text.size());
    text.remove_prefix(size);
    return size;
  };
  std::size_t num_digits = take_digits();
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    num_digits += take_digits();
  }
  if (num_digits == 0) return false;
  if (!text.empty() && is_e(text.front())) {
    text.remove_prefix(1);
    if (text.starts_with('+') || text.starts_with('-')) text.remove_prefix(1);
    if (take_digits() == 0) return false;
  }
  return text.empty();
}

bool is_not_finite(std::string_view text) {
  return is_same_word(text, "nan") || is_same_word(text, "inf") ||
         is_same_word(text, "infinity");
}

// The fault of a cell that is no number of the wanted kind.
CellFault fault_of(std::string_view cell) {
  if (cell.empty()) return CellFault::kEmpty;
  return is_true(cell) || is_false(cell) ? CellFault::kWord : CellFault::kShape;
}

struct Signed {
  explicit Signed(std::string_view cell)
      : is_negative(cell.starts_with('-')),
        digits(is_negative || cell.starts_with('+') ? cell.substr(1) : cell) {}

  bool is_negative;
  std::string_view digits;
};

template <std::integral T>
Cell<T> read_integer(std::string_view cell) {
  const Signed text(cell);
  if (!is_integer(text.digits)) {
    const bool is_number = is_decimal(text.digits) || is_not_finite(text.digits);
    return {.fault = is_number ? CellFault::kDecimal : fault_of(cell)};
  }
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.digits.data(), text.digits.data() + text.digits.size(), magnitude);
  const auto most = static_cast<std::uint64_t>(std::numeric_limits<T>::max());
  const std::uint64_t least = std::signed_integral<T> ? most + 1 : 0;  // without its sign
  if (error != std::errc() || magnitude > (text.is_negative ? least : most))
    return {.fault = CellFault::kRange};
  // Negation wraps around, also for the least value of all.
  return {.value = static_cast<T>(text.is_negative ? 0 - magnitude : magnitude)};
}

// An integer as a float with this many binary digits, of which `most` is the largest value.
template <std::floating_point T>
Cell<T> read_whole(const Signed& text, int digits, double most) {
  std::uint64_t magnitude = 0;
  const auto [end, error] =
      std::from_chars(text.digits.data(), text.digits.data() + text.digits.size(), magnitude);
  if (error != std::errc()) return {.fault = CellFault::kInexact};
  const std::uint64_t odd =
      magnitude == 0 ? 0 : magnitude >> static_cast<unsigned>(std::countr_zero(magnitude));
  if (std::cmp_greater(std::bit_width(odd), digits)) return {.fault = CellFault::kInexact};
  const auto value = static_cast<T>(magnitude);
  if (static_cast<double>(value) > most) return {.fault = CellFault::kRange};
  return {.value = text.is_negative ? -value : value};
}

// An infinity or NaN in words, or the fault of a text that is no number.
template <std::floating_point T>
Cell<T> read_not_finite(std::string_view cell, const Signed& text) {
  if (!is_not_finite(text.digits)) return {.fault = fault_of(cell)};
  const bool is_nan =
      text.digits.size() == 3 && (text.digits[0] == 'n' || text.digits[0] == 'N');
  const T value =
      is_nan ? std::numeric_limits<T>::quiet_NaN() : std::numeric_limits<T>::infinity();
  return {.value = text.is_negative ? -value : value};
}

template <std::floating_point T>
Cell<T> read_float(std::string_view cell, int digits, double most) {
  const Signed text(cell);
  if (is_integer(text.digits)) return read_whole<T>(text, digits, most);
  if (text.digits.starts_with('.') && text.digits.size() > 1 && is_digit(text.digits[1]))
    return read_float<T>((text.is_negative ? "-0" : "0") + std::string(text.digits), digits,
                         most);
  const PaddedText padded(text.digits);
  const Decimal<T> number = read_number<T>(padded.begin());
  const bool is_number = number.fault != DecimalFault::kShape && number.end == padded.end();
  if (!is_number || text.digits.empty() || !is_digit(text.digits.front()))
    return read_not_finite<T>(cell, text);
  if (number.fault != DecimalFault::kNone) return {.fault = CellFault::kRange};
  return {.value = text.is_negative ? -number.value : number.value};
}

Cell<std::uint8_t> read_flag(std::string_view cell) {
  if (is_true(cell)) return {.value = 1};
  if (is_false(cell)) return {.value = 0};
  const Cell<std::int64_t> number = read_integer<std::int64_t>(cell);
  if (number.fault == CellFault::kEmpty || number.fault == CellFault::kShape)
    return {.fault = number.fault};
  if (number.fault != CellFault::kNone || number.value < 0 || number.value > 1)
    return {.fault = CellFault::kNoFlag};
  return {.value = static_cast<std::uint8_t>(number.value)};
}

// The largest finite number of a float type.
template <class Element>
constexpr double most_of() {
  if constexpr (std::same_as<Element, Float16>) return 65504.0;
  if constexpr (std::same_as<Element, BFloat16>) return 0x1.fep127;
  return static_cast<double>(std::numeric_limits<typename Element::Value>::max());
}

template <class Read>
TextNumbers read_all(std::string_view text, std::span<const std::int64_t> offsets,
                     const Read& read) {
  using Value = decltype(read(text).value);
  const std::size_t count = offsets.size() - 1;
  TextNumbers found{.values = std::vector<std::uint8_t>(count * sizeof(Value)),
                    .faults = std::vector<std::uint8_t>(count)};
  for (std::size_t i = 0; i < count; ++i) {
    if (offsets[i] < 0 || offsets[i] > offsets[i + 1] ||
        static_cast<std::uint64_t>(offsets[i + 1]) > text.size())
      throw std::invalid_argument("offsets reach beyond the text");
    const auto begin = static_cast<std::size_t>(offsets[i]);
    const auto size = static_cast<std::size_t>(offsets[i + 1]) - begin;
    const auto cell = read(without_blanks(text.substr(begin, size)));
    found.faults[i] = static_cast<std::uint8_t>(cell.fault);
    std::memcpy(found.values.data() + i * sizeof(Value), &cell.value, sizeof(Value));
  }
  return found;
}

}  // namespace

namespace numbers {

template <std::floating_point T>
NumberRun read_numbers_portable(const char* text, NumberRoom<T> room) noexcept {
  NumberRun run{.end = text};
  while (*run.end == ' ' && run.count < room.count) {
    const char* const at = run.end + 1;
    const Decimal<T> number = decimal::read_marked<T>(at, decimal::mark(at), 0);
    if (number.end == nullptr) break;
    room.values[run.count++] = number.value;
    run.end = number.end;
  }
  return run;
}

template <std::floating_point T>
NumberRun read_pairs_portable(const char* text, std::uint64_t dimension,
                              NumberRoom<T> room) noexcept {
  NumberRun run{.end = text};
  while (*run.end == ' ' && run.count < room.count) {
    const char* const at = run.end + 1;
    const Digits index = read_digits(at);
    if (index.end == at || index.end - at > 8 || *index.end != ':' || index.value >= dimension)
      break;
    const char* const behind = index.end + 1;
    const Decimal<T> number = decimal::read_marked<T>(behind, decimal::mark(behind), 0);
    if (number.end == nullptr) break;
    room.indices[run.count] = static_cast<std::int32_t>(index.value);
    room.values[run.count++] = number.value;
    run.end = number.end;
  }
  return run;
}

template NumberRun read_numbers_portable(const char*, NumberRoom<float>) noexcept;
template NumberRun read_numbers_portable(const char*, NumberRoom<double>) noexcept;
template NumberRun read_pairs_portable(const char*, std::uint64_t, NumberRoom<float>) noexcept;
template NumberRun read_pairs_portable(const char*, std::uint64_t, NumberRoom<double>) noexcept;

}  // namespace numbers

template <std::floating_point T>
NumberRun read_numbers(const char* text, NumberRoom<T> room) noexcept {
#ifdef __x86_64__
  if (cpu().avx2) return numbers::read_numbers_avx2(text, room);
#endif
  return numbers::read_numbers_portable(text, room);
}

template <std::floating_point T>
NumberRun read_pairs(const char* text, std::uint64_t dimension, NumberRoom<T> room) noexcept {
#ifdef __x86_64__
  if (cpu().avx2) return numbers::read_pairs_avx2(text, dimension, room);
#endif
  return numbers::read_pairs_portable(text, dimension, room);
}

template NumberRun read_numbers(const char*, NumberRoom<float>) noexcept;
template NumberRun read_numbers(const char*, NumberRoom<double>) noexcept;
template NumberRun read_pairs(const char*, std::uint64_t, NumberRoom<float>) noexcept;
template NumberRun read_pairs(const char*, std::uint64_t, NumberRoom<double>) noexcept;

ElementType stored_as(ElementType wanted) noexcept {
  const bool is_short = wanted == ElementType::kFloat16 || wanted == ElementType::kBFloat16;
  return is_short ? ElementType::kFloat64 : wanted;
}

TextNumbers read_text_numbers(std::span<const char> text, std::span<const std::int64_t> offsets,
                              ElementType wanted) {
  if (wanted == ElementType::kOpaque || offsets.empty())
    throw std::invalid_argument("cells need offsets, and the type of a number");
  const std::string_view all(text.data(), text.size());
  return visit_element(wanted, TextNumbers(), [&]<class Element>(Element) {
    using Value = typename Element::Value;
    if constexpr (std::same_as<Element, Bool>) {
      return read_all(all, offsets, read_flag);
    } else if constexpr (std::integral<Value>) {
      return read_all(all, offsets, read_integer<Value>);
    } else {
      using Stored = std::conditional_t<sizeof(typename Element::Stored) == 2, double, Value>;
      return read_all(all, offsets, [](std::string_view cell) {
        return read_float<Stored>(cell, Element::kDigits, most_of<Element>());
      });
    }
  });
}

}  // namespace sweephand
