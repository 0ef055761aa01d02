#include "read/ctf_sample.hpp"

#include "read/decimal.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <variant>

namespace sweephand {
namespace {

// "inf", "infinity" or "nan" with a sign or without, in any case.
template <std::floating_point T>
Decimal<T> read_nonfinite(const char* text) noexcept {
  const bool negative = *text == '-';
  if (negative || *text == '+') ++text;
  const auto read_word = [text](std::string_view word) {
    const auto same = [](char expected, char found) { return expected == (found | 0x20); };
    // A mismatch comes no later than the line's end.
    return std::equal(word.begin(), word.end(), text, same) ? word.size() : 0;
  };
  using Limits = std::numeric_limits<T>;
  if (std::size_t size = std::max(read_word("inf"), read_word("infinity")))
    return {.end = text + size, .value = negative ? -Limits::infinity() : Limits::infinity()};
  if (std::size_t size = read_word("nan"))
    return {.end = text + size, .value = negative ? -Limits::quiet_NaN() : Limits::quiet_NaN()};
  return {.end = text, .fault = DecimalFault::kShape};
}

template <class T>
[[gnu::always_inline]] inline Decimal<T> read_value(const char* text,
                                                    bool allow_nonfinite) noexcept {
  const Decimal<T> number = read_number<T>(text);
  if constexpr (std::floating_point<T>) {
    if (number.fault == DecimalFault::kShape && allow_nonfinite) return read_nonfinite<T>(text);
  }
  return number;
}

CtfFault to_ctf(DecimalFault fault) noexcept {
  switch (fault) {
    case DecimalFault::kNone:
      return CtfFault::kNone;
    case DecimalFault::kShape:
      return CtfFault::kNumber;
    case DecimalFault::kRange:
      return CtfFault::kNumberRange;
    case DecimalFault::kFraction:
      return CtfFault::kFraction;
  }
  return CtfFault::kNumber;
}

// Where the next value begins, or the byte that ends the values.
const char* skip_blanks(const char* text) noexcept {
  while (is_blank(*text)) ++text;
  return text;
}

bool ends_sample(const char* text, const char* text_end) noexcept {
  return *text == '|' || is_line_end(text, text_end);
}

template <class T>
CtfSample read_dense(const char* text, const char* text_end, std::uint64_t dimension,
                     bool allow_nonfinite, std::vector<T>& values) {
  const std::size_t first = values.size();
  const auto lose = [&](const char* at, CtfFault fault) {
    values.resize(first);
    return CtfSample{.fault_at = at, .fault = fault};
  };
  while (is_blank(*text)) {
    text = skip_blanks(text);
    if (ends_sample(text, text_end)) break;
    const Decimal<T> number = read_value<T>(text, allow_nonfinite);
    if (number.fault != DecimalFault::kNone) {
      const bool shape = number.fault == DecimalFault::kShape;
      return lose(shape ? number.end : text, to_ctf(number.fault));
    }
    if (values.size() - first == dimension) return lose(text, CtfFault::kTooMany);
    values.push_back(number.value);
    text = number.end;
  }
  if (!ends_sample(text, text_end)) return lose(text, CtfFault::kDelimiter);
  if (values.size() - first == dimension) return {.end = text};
  return {.end = text, .fault_at = text, .fault = CtfFault::kTooFew};
}

bool has_repetition(std::vector<std::int32_t> indices) {
  std::ranges::sort(indices);
  return std::ranges::adjacent_find(indices) != indices.end();
}

// The index of 20 digits or more, or the dimension if it is beyond.
std::uint64_t read_long_index(const char* text, const char* end, std::uint64_t dimension) {
  std::uint64_t index = 0;
  const auto [_, error] = std::from_chars(text, end, index);
  return error == std::errc{} ? std::min(index, dimension) : dimension;
}

template <class T>
CtfSample read_sparse(const char* text, const char* text_end, std::uint64_t dimension,
                      bool allow_nonfinite, std::vector<T>& values,
                      std::vector<std::int32_t>& indices) {
  const std::size_t first = values.size();
  const char* const begin = text;
  const auto lose = [&](const char* at, CtfFault fault) {
    values.resize(first);
    indices.resize(first);
    return CtfSample{.fault_at = at, .fault = fault};
  };
  std::int64_t last = -1;
  bool ascending = true;
  while (is_blank(*text)) {
    text = skip_blanks(text);
    if (ends_sample(text, text_end)) break;
    std::uint64_t index = 0;
    const char* const index_end = read_digits(text, index);
    if (index_end == text) return lose(text, CtfFault::kIndex);
    if (index_end - text > 19) index = read_long_index(text, index_end, dimension);
    if (*index_end != ':') return lose(index_end, CtfFault::kColon);
    if (index >= dimension) return lose(text, CtfFault::kIndexRange);
    const Decimal<T> number = read_value<T>(index_end + 1, allow_nonfinite);
    if (number.fault != DecimalFault::kNone) {
      const bool shape = number.fault == DecimalFault::kShape;
      return lose(shape ? number.end : index_end + 1, to_ctf(number.fault));
    }
    values.push_back(number.value);
    indices.push_back(static_cast<std::int32_t>(index));
    ascending = ascending && static_cast<std::int64_t>(index) > last;
    last = static_cast<std::int64_t>(index);
    text = number.end;
  }
  if (!ends_sample(text, text_end)) return lose(text, CtfFault::kDelimiter);
  if (ascending ||
      !has_repetition({indices.begin() + static_cast<std::ptrdiff_t>(first), indices.end()}))
    return {.end = text};
  return {.end = text, .fault_at = begin, .fault = CtfFault::kRepeated};
}

}  // namespace

CtfColumn make_column(const CtfStream& stream) {
  CtfColumn column{.sample_offsets = {0}};
  if (stream.is_sparse) column.element_offsets = {0};
  switch (stream.type) {
    case ElementType::kFloat32:
      column.values = std::vector<float>{};
      return column;
    case ElementType::kFloat64:
      column.values = std::vector<double>{};
      return column;
    case ElementType::kInt8:
      column.values = std::vector<std::int8_t>{};
      return column;
    case ElementType::kInt16:
      column.values = std::vector<std::int16_t>{};
      return column;
    case ElementType::kInt32:
      column.values = std::vector<std::int32_t>{};
      return column;
    case ElementType::kInt64:
      column.values = std::vector<std::int64_t>{};
      return column;
    case ElementType::kUInt8:
      column.values = std::vector<std::uint8_t>{};
      return column;
    case ElementType::kUInt16:
      column.values = std::vector<std::uint16_t>{};
      return column;
    case ElementType::kUInt32:
      column.values = std::vector<std::uint32_t>{};
      return column;
    case ElementType::kUInt64:
      column.values = std::vector<std::uint64_t>{};
      return column;
    default:
      throw std::invalid_argument("field '" + stream.field +
                                  "': text is read into float32, float64 or an integer type");
  }
}

void truncate(CtfColumn& column, const CtfStream& stream, std::uint64_t num_samples) {
  std::uint64_t num_values = num_samples * stream.dimension;
  if (stream.is_sparse) {
    num_values = static_cast<std::uint64_t>(column.element_offsets[num_samples]);
    column.element_offsets.resize(num_samples + 1);
    column.indices.resize(num_values);
  }
  std::visit([num_values](auto& values) { values.resize(num_values); }, column.values);
  column.num_samples = num_samples;
}

CtfSample read_sample(const char* text, const char* text_end, const CtfStream& stream,
                      bool allow_nonfinite, CtfColumn& column) {
  const CtfSample sample = std::visit(
      [&](auto& values) {
        if (stream.is_sparse)
          return read_sparse(text, text_end, stream.dimension, allow_nonfinite, values,
                             column.indices);
        return read_dense(text, text_end, stream.dimension, allow_nonfinite, values);
      },
      column.values);
  if (sample.lost() || sample.fault == CtfFault::kTooFew) return sample;
  ++column.num_samples;
  if (stream.is_sparse)
    column.element_offsets.push_back(static_cast<std::int64_t>(column.indices.size()));
  return sample;
}

void pad_sample(const CtfStream& stream, CtfColumn& column) {
  ++column.num_samples;
  const std::uint64_t num_values = column.num_samples * stream.dimension;
  std::visit([num_values](auto& values) { values.resize(num_values); }, column.values);
}

}  // namespace sweephand
