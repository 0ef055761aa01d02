// A column of samples that have all their values in the text.
#pragma once

#include "formats/ctf_typed_column.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace sweephand {

template <class T>
class DenseColumn final : public TypedColumn<T> {
 public:
  using TypedColumn<T>::TypedColumn;

  const char* read(const char* text, const char* text_end) override {
    std::size_t next = num_values_;
    const std::size_t end = next + dimension_;
    std::size_t room = values_.size();
    T* out = values_.data();
    bool is_ordinary = std::floating_point<T>;  // a guess
    while (is_blank(*text)) {
      if constexpr (std::floating_point<T>) {
        if (is_ordinary) {
          const NumberRun run = read_numbers<T>(
              text, {.values = out + next, .count = std::min(end, room) - next});
          next += run.count;
          text = run.end;
          is_ordinary = run.count > 0;
          if (!is_blank(*text)) break;
        }
      }
      text = skip_blanks(text);
      const Decimal<T> number = this->read_value(text);
      if (number.fault != DecimalFault::kNone) {
        if (ends_sample(text, text_end)) break;
        return this->lose(number, text);
      }
      if (next == end) return this->lose(CtfFault::Kind::kTooMany, text);
      if (next == room) {
        this->grow();
        room = values_.size();
        out = values_.data();
      }
      out[next++] = number.value;
      text = number.end;
    }
    if (!ends_sample(text, text_end)) return this->lose(CtfFault::Kind::kDelimiter, text);
    if (next != end) {
      num_present_ = next;
      fault_ = {.kind = CtfFault::Kind::kTooFew, .at = text, .end = text};
      return nullptr;
    }
    num_values_ = next;
    ++num_samples_;
    return text;
  }

  void pad() override {
    num_values_ = ++num_samples_ * dimension_;
    if (values_.size() < num_values_) values_.resize(num_values_);
    std::fill(values_.data() + num_present_, values_.data() + num_values_, T{0});
  }

  void drop_sequence() override {
    num_samples_ -= this->num_new_samples();
    num_values_ = num_samples_ * dimension_;
  }

 private:
  using TypedColumn<T>::dimension_;
  using TypedColumn<T>::fault_;
  using TypedColumn<T>::num_samples_;
  using TypedColumn<T>::num_values_;
  using TypedColumn<T>::values_;

  std::size_t num_present_ = 0;  // values, with those of the sample that has too few
};

}  // namespace sweephand
