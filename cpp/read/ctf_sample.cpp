#include "read/ctf_sample.hpp"

#include "read/decimal.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstdint>
#include <limits>
#include <span>
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

// Where the next value begins, or the byte that ends the values. REQUIRES: is_blank(*text)
const char* skip_blanks(const char* text) noexcept {
  do ++text;
  while (is_blank(*text));
  return text;
}

bool ends_sample(const char* text, const char* text_end) noexcept {
  return *text == '|' || is_line_end(text, text_end);
}

// Makes room for more values, at least one, and returns how many fit in all.
template <class T>
std::size_t grow(Buffer<T>& values) {
  values.resize(2 * values.size() + 64);
  return values.size();
}

template <class T>
CtfSample read_dense(const char* text, const char* text_end, const CtfStream& stream,
                     bool allow_nonfinite, Buffer<T>& values, CtfColumn& column) {
  const std::size_t first = column.num_values;
  std::size_t next = first;
  std::size_t room = values.size();
  T* out = values.data();
  while (is_blank(*text)) {
    text = skip_blanks(text);
    const Decimal<T> number = read_value<T>(text, allow_nonfinite);
    if (number.fault != DecimalFault::kNone) {
      if (ends_sample(text, text_end)) break;
      const bool shape = number.fault == DecimalFault::kShape;
      return {.fault_at = shape ? number.end : text, .fault = to_ctf(number.fault)};
    }
    if (next - first == stream.dimension)
      return {.fault_at = text, .fault = CtfFault::kTooMany};
    if (next == room) {
      room = grow(values);
      out = values.data();
    }
    out[next++] = number.value;
    text = number.end;
  }
  if (!ends_sample(text, text_end)) return {.fault_at = text, .fault = CtfFault::kDelimiter};
  column.num_values = next;
  if (next - first == stream.dimension) return {.end = text};
  return {.end = text, .fault_at = text, .fault = CtfFault::kTooFew};
}

bool has_repetition(std::span<const std::int32_t> sample) {
  std::vector<std::int32_t> indices(sample.begin(), sample.end());
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
CtfSample read_sparse(const char* text, const char* text_end, const CtfStream& stream,
                      bool allow_nonfinite, Buffer<T>& values, CtfColumn& column) {
  const std::uint64_t dimension = stream.dimension;
  const char* const begin = text;
  const std::size_t first = column.num_values;
  std::size_t next = first;
  std::size_t room = values.size();
  T* out = values.data();
  std::int32_t* out_indices = column.indices.data();
  std::uint64_t least = 0;  // that the next index has if all ascend
  bool ascending = true;
  while (is_blank(*text)) {
    text = skip_blanks(text);
    std::uint64_t index = 0;
    const char* const index_end = read_digits(text, index);
    if (index_end == text) {
      if (ends_sample(text, text_end)) break;
      return {.fault_at = text, .fault = CtfFault::kIndex};
    }
    if (index_end - text > 19) index = read_long_index(text, index_end, dimension);
    if (*index_end != ':') return {.fault_at = index_end, .fault = CtfFault::kColon};
    if (index >= dimension) return {.fault_at = text, .fault = CtfFault::kIndexRange};
    const Decimal<T> number = read_value<T>(index_end + 1, allow_nonfinite);
    if (number.fault != DecimalFault::kNone) {
      const bool shape = number.fault == DecimalFault::kShape;
      return {.fault_at = shape ? number.end : index_end + 1, .fault = to_ctf(number.fault)};
    }
    if (next == room) {
      room = grow(values);
      column.indices.resize(room);
      out = values.data();
      out_indices = column.indices.data();
    }
    out[next] = number.value;
    out_indices[next++] = static_cast<std::int32_t>(index);
    ascending = ascending && index >= least;
    least = index + 1;
    text = number.end;
  }
  if (!ends_sample(text, text_end)) return {.fault_at = text, .fault = CtfFault::kDelimiter};
  column.num_values = next;
  if (ascending || !has_repetition(std::span(column.indices).subspan(first, next - first)))
    return {.end = text};
  return {.end = text, .fault_at = begin, .fault = CtfFault::kRepeated};
}

}  // namespace

CtfColumn make_column(const CtfStream& stream) {
  CtfColumn column{.sample_offsets = {0}};
  if (stream.is_sparse) column.element_offsets = {0};
  switch (stream.type) {
    case ElementType::kFloat32:
      column.values = Buffer<float>{};
      return column;
    case ElementType::kFloat64:
      column.values = Buffer<double>{};
      return column;
    case ElementType::kInt8:
      column.values = Buffer<std::int8_t>{};
      return column;
    case ElementType::kInt16:
      column.values = Buffer<std::int16_t>{};
      return column;
    case ElementType::kInt32:
      column.values = Buffer<std::int32_t>{};
      return column;
    case ElementType::kInt64:
      column.values = Buffer<std::int64_t>{};
      return column;
    case ElementType::kUInt8:
      column.values = Buffer<std::uint8_t>{};
      return column;
    case ElementType::kUInt16:
      column.values = Buffer<std::uint16_t>{};
      return column;
    case ElementType::kUInt32:
      column.values = Buffer<std::uint32_t>{};
      return column;
    case ElementType::kUInt64:
      column.values = Buffer<std::uint64_t>{};
      return column;
    default:
      throw std::invalid_argument("field '" + stream.field +
                                  "': text is read into float32, float64 or an integer type");
  }
}

void reserve(CtfColumn& column, double times) {
  const auto multiply = [times](std::size_t size) {
    return static_cast<std::size_t>(static_cast<double>(size) * times);
  };
  std::visit([&](auto& values) { values.resize(multiply(column.num_values)); }, column.values);
  if (!column.element_offsets.empty()) {
    column.indices.resize(multiply(column.num_values));
    column.element_offsets.reserve(multiply(column.element_offsets.size()));
  }
  column.sample_offsets.reserve(multiply(column.sample_offsets.size()));
}

void truncate(CtfColumn& column, const CtfStream& stream, std::uint64_t num_samples) {
  column.num_samples = num_samples;
  column.num_values = num_samples * stream.dimension;
  if (!stream.is_sparse) return;
  column.num_values = static_cast<std::uint64_t>(column.element_offsets[num_samples]);
  column.element_offsets.resize(num_samples + 1);
}

CtfSample read_sample(const char* text, const char* text_end, const CtfStream& stream,
                      bool allow_nonfinite, CtfColumn& column) {
  const CtfSample sample = std::visit(
      [&](auto& values) {
        return stream.is_sparse
                   ? read_sparse(text, text_end, stream, allow_nonfinite, values, column)
                   : read_dense(text, text_end, stream, allow_nonfinite, values, column);
      },
      column.values);
  if (sample.lost() || sample.fault == CtfFault::kTooFew) return sample;
  ++column.num_samples;
  if (stream.is_sparse)
    column.element_offsets.push_back(static_cast<std::int64_t>(column.num_values));
  return sample;
}

void pad_sample(const CtfStream& stream, CtfColumn& column) {
  const std::uint64_t num_values = ++column.num_samples * stream.dimension;
  std::visit(
      [&](auto& values) {
        if (values.size() < num_values) values.resize(num_values);
        std::fill(values.data() + column.num_values, values.data() + num_values, 0);
      },
      column.values);
  column.num_values = num_values;
}

}  // namespace sweephand
