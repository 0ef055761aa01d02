// Values of one type in lines of CNTK's text: the common part of dense and sparse columns.
#pragma once

#include "formats/ctf_column.hpp"
#include "formats/decimal.hpp"
#include "read/column_vector.hpp"

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>

namespace sweephand {

static_assert(kCtfPadding >= kNumberPadding + 16 && kCtfPadding >= kDecimalPadding + 16);

// "inf", "infinity" or "nan" with a sign or without, in any case.
template <std::floating_point T>
Decimal<T> read_nonfinite(const char* text) noexcept {
  const bool negative = *text == '-';
  if (negative || *text == '+') ++text;
  const auto read_word = [text](std::string_view word) {
    const auto same = [](char lower, char found) {
      return lower == found || lower - 'a' + 'A' == found;
    };
    // A mismatch comes no later than the line's end.
    return std::equal(word.begin(), word.end(), text, same) ? word.size() : 0;
  };
  using Limits = std::numeric_limits<T>;
  if (const std::size_t size = std::max(read_word("inf"), read_word("infinity")))
    return {.end = text + size, .value = negative ? -Limits::infinity() : Limits::infinity()};
  if (const std::size_t size = read_word("nan"))
    return {.end = text + size, .value = negative ? -Limits::quiet_NaN() : Limits::quiet_NaN()};
  return {.end = text, .fault = DecimalFault::kShape};
}

// Where the next value begins, or the byte that ends the values. REQUIRES: is_blank(*text)
inline const char* skip_blanks(const char* text) noexcept {
  do ++text;
  while (is_blank(*text));
  return text;
}

inline bool ends_sample(const char* text, const char* text_end) noexcept {
  return *text == '|' || is_line_end(text, text_end);
}

inline bool is_lone_digit(const char* text) noexcept {
  return is_digit(*text) && static_cast<unsigned char>(text[1]) <= ' ';
}

// The values, more than are used.
template <class T>
class TypedColumn : public CtfColumn {
 public:
  TypedColumn(const CtfStream& stream, bool allow_nonfinite)
      : CtfColumn(stream),
        type_(stream.type),
        dimension_(stream.dimension),
        allow_nonfinite_(allow_nonfinite) {}

  void reserve(double times) override {
    CtfColumn::reserve(times);
    values_.resize(multiply(num_values_, times));
  }

  void fit() override {
    CtfColumn::fit();
    this->cut(values_, num_values_);
  }

  Column borrow() const override {
    return {.values = reinterpret_cast<const std::byte*>(values_.data()),
            .sample_offsets = sample_offsets_.data(),
            .element_bytes = sizeof(T),
            .sample_elements = dimension_,
            .type = type_,
            .num_sequences = sample_offsets_.size() - 1,
            .num_samples = num_samples_,
            .num_elements = num_values_};
  }

  std::uint64_t num_bytes() const override {
    return values_.capacity() * sizeof(T) + sample_offsets_.capacity() * sizeof(std::int64_t);
  }

 protected:
  static std::size_t multiply(std::size_t size, double times) {
    return static_cast<std::size_t>(static_cast<double>(size) * times);
  }

  [[gnu::always_inline]] Decimal<T> read_value(const char* text) const noexcept {
    const Decimal<T> number = read_number<T>(text);
    if constexpr (std::floating_point<T>) {
      if (number.fault == DecimalFault::kShape && allow_nonfinite_)
        return read_nonfinite<T>(text);
    }
    return number;
  }

  const char* lose(CtfFault::Kind kind, const char* at) noexcept {
    fault_ = {.kind = kind, .at = at};
    return nullptr;
  }

  // The value that begins at `at` is no number.
  const char* lose(const Decimal<T>& number, const char* at) noexcept {
    if (number.fault == DecimalFault::kRange) return lose(CtfFault::Kind::kNumberRange, at);
    if (number.fault == DecimalFault::kFraction) return lose(CtfFault::Kind::kFraction, at);
    return lose(CtfFault::Kind::kNumber, number.end);
  }

  // Makes room for at least one more value.
  void grow() { values_.resize(2 * values_.size() + 64); }

  ElementType type_;
  std::uint64_t dimension_;
  bool allow_nonfinite_;
  ColumnVector<T> values_;
};

}  // namespace sweephand
