#include "formats/ctf_column.hpp"

#include "formats/decimal.hpp"
#include "read/column.hpp"

#include <algorithm>
#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <system_error>
#include <vector>

namespace sweephand {
namespace {

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

// A column of samples that have all their values in the text.
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

// A column of samples that are pairs of an index and a value in the text.
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

template <class T>
std::unique_ptr<CtfColumn> make(const CtfStream& stream, bool allow_nonfinite) {
  if (stream.is_sparse) return std::make_unique<SparseColumn<T>>(stream, allow_nonfinite);
  return std::make_unique<DenseColumn<T>>(stream, allow_nonfinite);
}

}  // namespace

void check(const CtfFormat& format) {
  if (format.streams.empty()) throw std::invalid_argument("there must be a stream");
  std::uint64_t num_sizes = 0;
  for (const CtfStream& stream : format.streams) {
    const std::string field = "field '" + stream.field + "'";
    const auto unfit = [](char byte) {
      return static_cast<unsigned char>(byte) <= ' ' || byte == '|';
    };
    if (stream.field.empty() || stream.field.front() == '#' ||
        std::ranges::any_of(stream.field, unfit))
      throw std::invalid_argument(field +
                                  " cannot be a name: it must have no blank, '|' or "
                                  "control character, and not begin with '#'");
    const auto same = [&](const CtfStream& other) { return other.field == stream.field; };
    if (std::ranges::count_if(format.streams, same) > 1)
      throw std::invalid_argument(field + " is declared twice");
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (stream.dimension == 0 || stream.dimension > kMost)
      throw std::invalid_argument(field + ": the shape must hold 1 to 2^31 - 1 numbers, got " +
                                  std::to_string(stream.dimension));
    num_sizes += stream.defines_mb_size ? 1 : 0;
  }
  if (num_sizes > 1) throw std::invalid_argument("only one stream may say defines_mb_size");
}

CtfColumn::CtfColumn(const CtfStream& stream) : name_(stream.field) {
  const std::size_t size = std::min(name_.size(), sizeof name_word_);
  std::memcpy(&name_word_, name_.data(), size);
  std::memset(&name_mask_, 0xff, size);
}

void CtfColumn::end_sequence() {
  sample_offsets_.push_back(static_cast<std::int64_t>(num_samples_));
}

void CtfColumn::clear() {
  sample_offsets_.resize(1);
  drop_sequence();
}

void CtfColumn::fit() { free_room(sample_offsets_); }

void CtfColumn::reserve(double times) {
  sample_offsets_.reserve(
      static_cast<std::size_t>(static_cast<double>(sample_offsets_.size()) * times));
}

std::unique_ptr<CtfColumn> make_column(const CtfStream& stream, bool allow_nonfinite) {
  using Made = std::unique_ptr<CtfColumn>;
  Made made = visit_element(stream.type, Made(), [&]<class Element>(Element) -> Made {
    if constexpr (StoredAsItIs<Element>) {
      return make<typename Element::Stored>(stream, allow_nonfinite);
    } else {
      return nullptr;
    }
  });
  if (made) return made;
  throw std::invalid_argument("field '" + stream.field +
                              "': text is read into float32, float64 or an integer type");
}

}  // namespace sweephand
