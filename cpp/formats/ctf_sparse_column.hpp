// A column of samples that are pairs of an index and a value in the text.
#pragma once

#include "formats/ctf_typed_column.hpp"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>
#include <vector>

namespace sweephand {

// A space, an index of at most four digits, and a value of one; false if there is no such pair.
struct LonePair {
  const char* end = nullptr;
  std::uint64_t index = 0;

  explicit operator bool() const noexcept { return end != nullptr; }
};

[[gnu::always_inline]] inline LonePair find_lone_pair(const char* text) noexcept {
  if (*text != ' ') return {};
  const Octet octet(text + 1);
  const std::uint64_t size = first_byte(octet.others());
  const char* const colon = text + 1 + size;
  if (size - 1 > 3 || *colon != ':' || !is_lone_digit(colon + 1)) return {};
  return {.end = colon + 2, .index = octet.short_value(size)};
}

// True if each is greater than its predecessor.
inline bool ascends(std::span<const std::int32_t> sample) {
  bool result = true;
  for (std::size_t i = 1; i < sample.size(); ++i) result &= sample[i - 1] < sample[i];
  return result;
}

inline bool has_repetition(std::span<const std::int32_t> sample) {
  std::vector<std::int32_t> indices(sample.begin(), sample.end());
  std::ranges::sort(indices);
  return std::ranges::adjacent_find(indices) != indices.end();
}

// The index of 20 digits or more, or the dimension if it is beyond.
inline std::uint64_t read_long_index(const char* text, const char* end,
                                     std::uint64_t dimension) {
  std::uint64_t index = 0;
  const auto [_, error] = std::from_chars(text, end, index);
  return error == std::errc{} ? std::min(index, dimension) : dimension;
}

template <class T>
class SparseColumn final : public TypedColumn<T> {
 public:
  using TypedColumn<T>::TypedColumn;

  const char* read(const char* text, const char* text_end) override {
    if (const LonePair pair = find_lone_pair(text)) {
      // Many samples have no other pair.
      const char* const end = pair.end + (is_blank(*pair.end) ? 1 : 0);
      if ((*end == '|' || *end == '\n') && add_lone_pair(pair)) return end;
    }
    return read_any(text, text_end);
  }

  void pad() override {}  // no sparse sample has too few values

  void drop_sequence() override {
    num_samples_ -= this->num_new_samples();
    num_values_ = static_cast<std::size_t>(element_offsets_[num_samples_]);
  }

  void reserve(double times) override {
    TypedColumn<T>::reserve(times);
    indices_.resize(values_.size());
    element_offsets_.resize(this->multiply(num_samples_ + 1, times));
  }

  void fit() override {
    TypedColumn<T>::fit();
    this->cut(indices_, num_values_);
    this->cut(element_offsets_, num_samples_ + 1);
  }

  Column borrow() const override {
    Column column = TypedColumn<T>::borrow();
    column.element_offsets = element_offsets_.data();
    static constexpr std::int32_t kNone = 0;  // null would say that the stream is not sparse
    column.indices = indices_.empty() ? &kNone : indices_.data();
    return column;
  }

  std::uint64_t num_bytes() const override {
    return TypedColumn<T>::num_bytes() + indices_.capacity() * sizeof(std::int32_t) +
           element_offsets_.capacity() * sizeof(std::int64_t);
  }

 private:
  // Adds a sample of one pair; false if the index is beyond the dimension, or there is no room.
  [[gnu::always_inline]] bool add_lone_pair(const LonePair& pair) {
    if (pair.index >= dimension_ || num_values_ >= values_.size() ||
        num_samples_ + 1 >= element_offsets_.size())
      return false;
    values_[num_values_] = static_cast<T>(pair.end[-1] - '0');
    indices_[num_values_] = static_cast<std::int32_t>(pair.index);
    num_indices_ = std::max(num_indices_, pair.index + 1);
    element_offsets_[++num_samples_] = static_cast<std::int64_t>(++num_values_);
    return true;
  }

  // Any sample; see read.
  [[gnu::noinline]] const char* read_any(const char* text, const char* text_end) {
    const char* const begin = text;
    std::size_t next = num_values_;
    if (has_lone_digits_) text = read_lone_pairs(text, next);  // most sparse values are ones
    bool is_ordinary = std::floating_point<T> && !has_lone_digits_;
    while (is_blank(*text)) {
      if constexpr (std::floating_point<T>) {
        if (is_ordinary) {
          is_ordinary = read_ordinary_pairs(text, next);
          if (!is_blank(*text)) break;
        }
      }
      text = skip_blanks(text);
      if (ends_sample(text, text_end)) break;
      text = read_pair(text, next);
      if (text == nullptr) return nullptr;
    }
    if (!ends_sample(text, text_end)) return this->lose(CtfFault::Kind::kDelimiter, text);
    return end_sample(begin, text, next);
  }

  // Pairs whose value is a digit by itself, and no more than there is room for. `next` is the
  // place of the first value that was not read.
  const char* read_lone_pairs(const char* text, std::size_t& next) {
    const std::uint64_t dimension = dimension_;
    const std::size_t room = values_.size();
    T* const out = values_.data();
    std::int32_t* const out_indices = indices_.data();
    while (const LonePair pair = find_lone_pair(text)) {
      if (next == room || pair.index >= dimension) break;
      out[next] = static_cast<T>(pair.end[-1] - '0');
      out_indices[next++] = static_cast<std::int32_t>(pair.index);
      text = pair.end;
    }
    return text;
  }

  // Reads a run of ordinary pairs; true if there was one.
  bool read_ordinary_pairs(const char*& text, std::size_t& next) {
    const NumberRun run = read_pairs<T>(text, dimension_,
                                        {.values = values_.data() + next,
                                         .indices = indices_.data() + next,
                                         .count = values_.size() - next});
    next += run.count;
    text = run.end;
    return run.count > 0;
  }

  // Any pair; null if it is none.
  const char* read_pair(const char* text, std::size_t& next) {
    auto [index_end, index] = read_digits(text);
    if (index_end == text) return this->lose(CtfFault::Kind::kIndex, text);
    if (index_end - text > 19) index = read_long_index(text, index_end, dimension_);
    if (*index_end != ':') return this->lose(CtfFault::Kind::kColon, index_end);
    if (index >= dimension_) return this->lose(CtfFault::Kind::kIndexRange, text);
    has_lone_digits_ = is_lone_digit(index_end + 1);
    const Decimal<T> number = this->read_value(index_end + 1);
    if (number.fault != DecimalFault::kNone) return this->lose(number, index_end + 1);
    if (next == values_.size()) {
      this->grow();
      indices_.resize(values_.size());
    }
    values_[next] = number.value;
    indices_[next++] = static_cast<std::int32_t>(index);
    return number.end;
  }

  // Null if an index comes twice in the sample that begins at `begin`.
  const char* end_sample(const char* begin, const char* text, std::size_t next) {
    const std::span<const std::int32_t> indices(indices_.data() + num_values_,
                                                next - num_values_);
    const bool ascending = ascends(indices);
    if (!indices.empty()) {
      const std::int32_t most = ascending ? indices.back() : std::ranges::max(indices);
      num_indices_ = std::max(num_indices_, static_cast<std::uint64_t>(most) + 1);
    }
    num_values_ = next;
    if (++num_samples_ == element_offsets_.size())
      element_offsets_.resize(2 * num_samples_ + 64);
    element_offsets_[num_samples_] = static_cast<std::int64_t>(next);
    if (ascending || !has_repetition(indices)) return text;
    fault_ = {.kind = CtfFault::Kind::kRepeated, .at = begin, .end = text};
    return nullptr;
  }

  using TypedColumn<T>::dimension_;
  using TypedColumn<T>::fault_;
  using TypedColumn<T>::num_indices_;
  using TypedColumn<T>::num_samples_;
  using TypedColumn<T>::num_values_;
  using TypedColumn<T>::values_;

  bool has_lone_digits_ = true;                    // values of the pairs met last, a guess
  ColumnVector<std::int32_t> indices_;             // as many as values
  ColumnVector<std::int64_t> element_offsets_{0};  // more than one per sample and one more
};

}  // namespace sweephand
