#include "formats/json_column.hpp"

#include "formats/json_text.hpp"
#include "formats/utf8.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstddef>

namespace sweephand {
namespace {

constexpr std::ptrdiff_t kMaxDigits = 18;  // always fit 64 bits

}  // namespace

JsonColumn::JsonColumn(const JsonKey& key)
    : key_(key.name),
      wanted_(precision_of(key.wanted)),
      of_integers_(key.wanted >= ElementType::kFloat16 ? Kind::kFloat64 : Kind::kInt64) {}

JsonColumn::Precision JsonColumn::precision_of(ElementType wanted) noexcept {
  return visit_element(wanted, Precision(), []<class Element>(Element) -> Precision {
    if constexpr (std::same_as<typename Element::Value, float>) {
      return {.digits = Element::kDigits, .least_normal = Element::kLeastNormal};
    } else {
      return {};
    }
  });
}

// True if a double is halfway between two of the narrower floats, so that it does not decide to
// which of them the text is nearer.
bool JsonColumn::is_halfway(double number, const Precision& wanted) noexcept {
  const double magnitude = std::abs(number);
  if (magnitude < wanted.least_normal) {
    const double halves = magnitude * (std::ldexp(1.0, wanted.digits) / wanted.least_normal);
    return std::trunc(halves) == halves && std::fmod(halves, 2.0) == 1.0;
  }
  const auto shift = static_cast<unsigned>(53 - wanted.digits);
  const std::uint64_t beyond = std::bit_cast<std::uint64_t>(number) & ((1ULL << shift) - 1);
  return beyond == (1ULL << shift) >> 1;
}

std::size_t JsonColumn::num_samples() const noexcept {
  return flags_.size() + integers_.size() + floats_.size() + text_offsets_.size() - 1;
}

// Not inlined: it happens once, and the code path of every number should be short.
[[gnu::noinline]] bool JsonColumn::turn_to(Kind kind) {
  if (kind_ == Kind::kNone) {
    kind_ = kind == Kind::kInt64 ? of_integers_ : kind;
    return true;
  }
  if (kind_ == Kind::kFloat64 && kind == Kind::kInt64) return true;
  if (kind_ != Kind::kInt64 || kind != Kind::kFloat64) return false;
  for (const std::int64_t one : integers_) digits_ |= static_cast<std::uint64_t>(std::abs(one));
  floats_.assign(integers_.begin(), integers_.end());
  integers_.clear();
  kind_ = Kind::kFloat64;
  return true;
}

// True if values of a kind may follow the present values.
[[gnu::always_inline]] inline bool JsonColumn::is_of(Kind kind) {
  return kind_ == kind || turn_to(kind);
}

// `text` begins after the quotation mark.
const char* JsonColumn::read_text(const char* text) {
  while (true) {
    const char* const begin = text;
    while (*text != '"' && *text != '\\' && !is_control(*text)) ++text;
    text_.insert(text_.end(), begin, text);
    if (*text == '"') break;
    if (*text != '\\') return nullptr;
    const Escape escape = read_escape(text + 1);
    if (escape.end == nullptr) return nullptr;
    append_utf8(escape.code_point, text_);
    text = escape.end;
  }
  text_offsets_.push_back(static_cast<std::int64_t>(text_.size()));
  return text + 1;
}

[[gnu::always_inline]] inline const char* JsonColumn::read_number_at(const char* text) {
  const bool negative = *text == '-';
  const char* const begin = negative ? text + 1 : text;
  const Digits digits = read_digits(begin);
  const NumberEnd found = end_number(begin, digits.end);
  if (found.end == nullptr) return nullptr;
  if (found.is_float) {
    const Decimal<double> number = read_number<double>(text);
    if (number.fault != DecimalFault::kNone || !is_of(Kind::kFloat64)) return nullptr;
    floats_.push_back(number.value);
    return found.end;
  }
  if (digits.end - begin > kMaxDigits) return nullptr;
  const auto magnitude = static_cast<std::int64_t>(digits.value);
  const std::int64_t value = negative ? -magnitude : magnitude;
  if (kind_ == Kind::kFloat64) {
    digits_ |= digits.value;
    floats_.push_back(static_cast<double>(value));
    return found.end;
  }
  if (!is_of(Kind::kInt64)) return nullptr;
  if (kind_ == Kind::kFloat64) return read_again(text);
  integers_.push_back(value);
  return found.end;
}

// An integer that has made its column one of floats.
[[gnu::noinline]] const char* JsonColumn::read_again(const char* text) {
  return read_number_at(text);
}

[[gnu::always_inline]] inline const char* JsonColumn::read_scalar(const char* text) {
  if (is_digit(*text) || *text == '-') return read_number_at(text);
  if (*text == '"') return is_of(Kind::kText) ? read_text(text + 1) : nullptr;
  const bool flag = *text == 't';
  text = skip_word(text, flag ? "true" : "false");
  if (text == nullptr || !is_of(Kind::kBool)) return nullptr;
  flags_.push_back(flag ? 1 : 0);
  return text;
}

const char* JsonColumn::read(const char* text) {
  is_filled_ = true;
  if (*text != '[') return read_scalar(text);
  text = skip_whitespace(text + 1);
  if (*text == ']') return text + 1;
  while (true) {
    text = read_scalar(text);
    if (text == nullptr) return nullptr;
    text = skip_whitespace(text);
    if (*text == ']') return text + 1;
    if (*text != ',') return nullptr;
    text = skip_whitespace(text + 1);
  }
}

void JsonColumn::end_line() {
  is_filled_ = false;
  sample_offsets_.push_back(static_cast<std::int64_t>(num_samples()));
}

bool JsonColumn::is_exact() const {
  const bool are_small = (digits_ >> static_cast<unsigned>(wanted_.digits)) == 0;
  const auto halfway = [this](double one) { return is_halfway(one, wanted_); };
  return are_small && (wanted_.digits == 53 || std::ranges::none_of(floats_, halfway));
}

void JsonColumn::fit() {
  free_room(flags_);
  free_room(integers_);
  free_room(floats_);
  free_room(text_);
  free_room(text_offsets_);
  free_room(sample_offsets_);
}

Column JsonColumn::borrow() const {
  Column column{.sample_offsets = sample_offsets_.data()};
  if (kind_ == Kind::kText) {
    column.values = reinterpret_cast<const std::byte*>(text_.data());
    column.element_offsets = text_offsets_.data();
    column.element_bytes = 1;
  } else if (kind_ == Kind::kFloat64) {
    column.values = reinterpret_cast<const std::byte*>(floats_.data());
    column.element_bytes = sizeof(double);
    column.type = ElementType::kFloat64;
  } else if (kind_ == Kind::kBool) {
    column.values = reinterpret_cast<const std::byte*>(flags_.data());
    column.element_bytes = 1;
    column.type = ElementType::kBool;
  } else {
    column.values = reinterpret_cast<const std::byte*>(integers_.data());
    column.element_bytes = sizeof(std::int64_t);
    column.type = ElementType::kInt64;
  }
  return column;
}

}  // namespace sweephand
