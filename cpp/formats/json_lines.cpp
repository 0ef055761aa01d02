#include "formats/json_lines.hpp"

#include "formats/decimal.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <concepts>
#include <cstring>
#include <string_view>

namespace sweephand {
namespace {

constexpr int kMaxDepth = 64;                 // of lists and objects that are skipped
constexpr std::ptrdiff_t kMaxSkipped = 4000;  // digits; some parsers refuse longer integers

// The grammar of JSON (RFC 8259), token by token. Text ends with a zero byte, after which a few
// more can be read; text that is not ordinary gives a null pointer, and is left to another
// parser.
inline bool is_control(char byte) noexcept { return static_cast<unsigned char>(byte) < 0x20; }

const char* skip_whitespace(const char* text) noexcept {
  while (*text == ' ' || *text == '\t' || *text == '\r') ++text;
  return text;
}

// The end of `word` at `text`; null if the text differs.
const char* skip_word(const char* text, std::string_view word) noexcept {
  return std::equal(word.begin(), word.end(), text) ? text + word.size() : nullptr;
}

// The end of a number by the grammar of JSON, and whether it has a fraction or an exponent.
struct NumberEnd {
  const char* end = nullptr;  // null: there is no number
  bool is_float = false;
};

[[gnu::always_inline]] inline NumberEnd end_number(const char* digits,
                                                   const char* end) noexcept {
  if (end == digits || (*digits == '0' && end != digits + 1)) return {};
  if (*end != '.' && !is_e(*end)) return {.end = end};
  if (*end == '.') {
    const char* const fraction = end + 1;
    end = read_digits(fraction).end;
    if (end == fraction) return {};
  }
  if (is_e(*end)) {
    const char* exponent = end + 1;
    if (*exponent == '-' || *exponent == '+') ++exponent;
    end = read_digits(exponent).end;
    if (end == exponent) return {};
  }
  return {.end = end, .is_float = true};
}

struct Escape {
  const char* end = nullptr;  // null: it is none, or half a surrogate pair
  std::uint32_t code_point = 0;
};

// Four hexadecimal digits; more than 0xffff if they are invalid.
std::uint32_t read_hex(const char* text) noexcept {
  std::uint32_t value = 0;
  for (int i = 0; i < 4; ++i) {
    const unsigned byte = static_cast<unsigned char>(text[i]);
    const unsigned lower = byte | 0x20U;
    if (byte >= '0' && byte <= '9') {
      value = value * 16 + (byte - '0');
    } else if (lower >= 'a' && lower <= 'f') {
      value = value * 16 + (lower - 'a' + 10);
    } else {
      return 0x10000;
    }
  }
  return value;
}

// `text` follows the backslash.
Escape read_escape(const char* text) noexcept {
  constexpr std::string_view kLetters = "\"\\/bfnrt";
  constexpr std::string_view kMeanings = "\"\\/\b\f\n\r\t";
  if (*text != 'u') {
    const std::size_t place = kLetters.find(*text);
    if (place == std::string_view::npos) return {};
    return {.end = text + 1, .code_point = static_cast<std::uint32_t>(kMeanings[place])};
  }
  const std::uint32_t first = read_hex(text + 1);
  if (first > 0xffff || (first >= 0xdc00 && first < 0xe000)) return {};
  if (first < 0xd800 || first >= 0xe000) return {.end = text + 5, .code_point = first};
  if (text[5] != '\\' || text[6] != 'u') return {};
  const std::uint32_t second = read_hex(text + 7);
  if (second < 0xdc00 || second > 0xdfff) return {};
  return {.end = text + 11,
          .code_point = 0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)};
}

// `text` begins after the quotation mark.
const char* skip_text(const char* text) noexcept {
  while (*text != '"') {
    if (is_control(*text)) return nullptr;
    if (*text++ != '\\') continue;
    if (*text == 'u' ? read_hex(text + 1) > 0xffff : read_escape(text).end == nullptr)
      return nullptr;
    ++text;
  }
  return text + 1;
}

const char* skip_value(const char* text, int depth) noexcept;

// A list or an object, from after its opening bracket to its end.
const char* skip_items(const char* text, bool is_object, int depth) noexcept {
  const char closing = is_object ? '}' : ']';
  text = skip_whitespace(text);
  if (*text == closing) return text + 1;
  while (true) {
    if (is_object) {
      if (*text != '"') return nullptr;
      text = skip_text(text + 1);
      if (text == nullptr) return nullptr;
      text = skip_whitespace(text);
      if (*text != ':') return nullptr;
      text = skip_whitespace(text + 1);
    }
    text = skip_value(text, depth);
    if (text == nullptr) return nullptr;
    text = skip_whitespace(text);
    if (*text == closing) return text + 1;
    if (*text != ',') return nullptr;
    text = skip_whitespace(text + 1);
  }
}

const char* skip_value(const char* text, int depth) noexcept {  // NOLINT(misc-no-recursion)
  if (*text == '"') return skip_text(text + 1);
  if (*text == '[' || *text == '{')
    return depth == 0 ? nullptr : skip_items(text + 1, *text == '{', depth - 1);
  if (*text == 't') return skip_word(text, "true");
  if (*text == 'f') return skip_word(text, "false");
  if (*text == 'n') return skip_word(text, "null");
  const char* const digits = *text == '-' ? text + 1 : text;
  const char* const end = end_number(digits, read_digits(digits).end).end;
  return end == nullptr || end - digits > kMaxSkipped ? nullptr : end;
}

// The end of a value that is skipped.
const char* skip_value(const char* text) noexcept { return skip_value(text, kMaxDepth); }

// The number of bytes of a character after its first; 0 if it is invalid.
std::size_t count_utf8(const unsigned char* text) noexcept {
  const unsigned lead = text[0];
  const auto follows = [](unsigned char byte) { return (byte & 0xc0) == 0x80; };
  if (lead < 0xc2 || lead > 0xf4 || !follows(text[1])) return 0;
  if (lead < 0xe0) return 1;
  // Neither too long, nor half a surrogate pair, nor beyond the last code point.
  if ((lead == 0xe0 && text[1] < 0xa0) || (lead == 0xed && text[1] >= 0xa0) ||
      !follows(text[2]))
    return 0;
  if (lead < 0xf0) return 2;
  if ((lead == 0xf0 && text[1] < 0x90) || (lead == 0xf4 && text[1] >= 0x90) ||
      !follows(text[3]))
    return 0;
  return 3;
}

// True if all bytes are characters. REQUIRES: seven more bytes than `text` has can be read
bool is_utf8(std::span<const char> text) noexcept {
  const auto* at = reinterpret_cast<const unsigned char*>(text.data());
  const auto* const end = at + text.size();
  while (at < end) {
    std::uint64_t eight = 0;
    std::memcpy(&eight, at, sizeof eight);
    if ((eight & 0x8080808080808080) == 0) {
      at += sizeof eight;
    } else if (*at < 0x80) {
      ++at;
    } else {
      const std::size_t more = count_utf8(at);
      if (more == 0) return false;
      at += 1 + more;
    }
  }
  return true;
}

void append_utf8(std::uint32_t code_point, ColumnVector<char>& text) {
  const auto add = [&text](std::uint32_t byte) { text.push_back(static_cast<char>(byte)); };
  const auto add_six = [&](unsigned shift) { add(0x80 | ((code_point >> shift) & 0x3f)); };
  if (code_point < 0x80) {
    add(code_point);
    return;
  }
  if (code_point < 0x800) {
    add(0xc0 | (code_point >> 6));
  } else if (code_point < 0x10000) {
    add(0xe0 | (code_point >> 12));
    add_six(6);
  } else {
    add(0xf0 | (code_point >> 18));
    add_six(12);
    add_six(6);
  }
  add_six(0);
}

// The values of one key of JSON lines.
class JsonColumn {
 public:
  explicit JsonColumn(const JsonKey& key);

  std::string_view key() const noexcept { return key_; }

  // True if the current line has the key already.
  bool is_filled() const noexcept { return is_filled_; }

  // Reads a value; null when it is not ordinary.
  const char* read(const char* text);

  void end_line();

  // Whether all numbers are those of the text, or determine the nearest number of the declared
  // type. Checked when all are read, to keep the path of each short.
  bool is_exact() const;

  // Frees the room that its vectors did not need.
  void fit();

  // Its content, valid as long as it lives, and until it changes.
  Column borrow() const;

 private:
  enum class Kind : std::uint8_t { kNone, kBool, kInt64, kFloat64, kText };

  // The float that numbers are to become.
  struct Precision {
    int digits = 53;            // to base 2
    double least_normal = 0.0;  // floats below have fewer digits, those of double aside
  };

  static Precision precision_of(ElementType wanted) noexcept;
  static bool is_halfway(double number, const Precision& wanted) noexcept;

  std::size_t num_samples() const noexcept;
  bool is_of(Kind kind);
  bool turn_to(Kind kind);
  const char* read_scalar(const char* text);
  const char* read_number_at(const char* text);
  const char* read_again(const char* text);
  const char* read_text(const char* text);

  std::string key_;
  bool is_filled_ = false;
  Kind kind_ = Kind::kNone;  // only its vector has values
  ColumnVector<std::uint8_t> flags_;
  ColumnVector<std::int64_t> integers_;
  ColumnVector<double> floats_;
  ColumnVector<char> text_;
  std::vector<std::int64_t> text_offsets_{0};
  std::vector<std::int64_t> sample_offsets_{0};
  Precision wanted_;
  Kind of_integers_;          // what they are stored as
  std::uint64_t digits_ = 0;  // of all integers among floats
};

constexpr std::ptrdiff_t kMaxDigits = 18;  // always fit 64 bits

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

class JsonLines {
 public:
  explicit JsonLines(const std::vector<JsonKey>& keys) : columns_(keys.begin(), keys.end()) {
    for (const JsonKey& key : keys) {
      for (auto dot = key.name.find('.', 1); dot != std::string::npos;
           dot = key.name.find('.', dot + 1)) {
        const std::string outer = key.name.substr(0, dot);
        if (find_outer(outer) == nullptr) outers_.push_back({outer});
      }
    }
  }

  // The end of the line that begins at `text`; null if it is not ordinary.
  const char* read_line(const char* text) {
    text = skip_whitespace(text);
    if (*text == '\n' || *text == '\0') return text;
    if (*text != '{') return nullptr;
    text = read_members(text + 1, {});
    if (text == nullptr) return nullptr;
    for (JsonColumn& column : columns_) column.end_line();
    for (Outer& outer : outers_) outer.is_met = false;
    ++num_lines_;
    return skip_whitespace(text);
  }

  std::uint64_t num_lines() const noexcept { return num_lines_; }
  const std::vector<JsonColumn>& columns() const noexcept { return columns_; }
  void fit() {
    for (JsonColumn& column : columns_) column.fit();
  }

 private:
  // An object that keys with dots may name members of.
  struct Outer {
    std::string key;
    bool is_met = false;  // in the current line
  };

  // An object from after its opening brace to after its closing brace. `within` is its key with
  // a dot, empty for the whole line. Recursion is as deep as keys have dots.
  const char* read_members(const char* text, const std::string& within) {
    text = skip_whitespace(text);
    if (*text == '}') return text + 1;
    while (true) {
      if (*text != '"') return nullptr;
      const char* const key = text + 1;
      text = end_key(key);
      if (text == nullptr) return nullptr;
      const std::string inner = within.empty() ? within : within + std::string(key, text);
      const std::string_view path = within.empty() ? std::string_view(key, text) : inner;
      text = skip_whitespace(text + 1);
      if (*text != ':') return nullptr;
      text = read_value(skip_whitespace(text + 1), path);
      if (text == nullptr) return nullptr;
      text = skip_whitespace(text);
      if (*text == '}') return text + 1;
      if (*text != ',') return nullptr;
      text = skip_whitespace(text + 1);
    }
  }

  // The quotation mark after a key without escapes.
  static const char* end_key(const char* text) {
    while (*text != '"' && *text != '\\' && !is_control(*text)) ++text;
    return *text == '"' ? text : nullptr;
  }

  // The value of the member with a path, from its first byte to past its last.
  const char* read_value(const char* text, std::string_view path) {
    JsonColumn* const column = find(path);
    Outer* const outer = find_outer(path);
    if (column != nullptr && column->is_filled()) return nullptr;
    if (outer == nullptr) return column != nullptr ? column->read(text) : skip_value(text);
    if (column != nullptr || outer->is_met || *text != '{') return nullptr;
    outer->is_met = true;
    return read_members(text + 1, outer->key + '.');
  }

  JsonColumn* find(std::string_view key) {
    const auto found = std::ranges::find(columns_, key, &JsonColumn::key);
    return found == columns_.end() ? nullptr : &*found;
  }

  Outer* find_outer(std::string_view key) {
    const auto found = std::ranges::find(outers_, key, &Outer::key);
    return found == outers_.end() ? nullptr : &*found;
  }

  std::vector<JsonColumn> columns_;
  std::vector<Outer> outers_;
  std::uint64_t num_lines_ = 0;
};

}  // namespace

std::shared_ptr<const Chunk> read_json_lines(const std::vector<JsonKey>& keys,
                                             std::span<const char> text) {
  if (!is_utf8(text)) return nullptr;
  const auto lines = std::make_shared<JsonLines>(keys);
  const char* const end = text.data() + text.size();
  for (const char* at = text.data(); at < end; ++at) {
    at = lines->read_line(at);
    if (at == nullptr || (at != end && *at != '\n')) return nullptr;
  }
  if (!std::ranges::all_of(lines->columns(), &JsonColumn::is_exact)) return nullptr;
  lines->fit();
  const auto chunk = std::make_shared<Chunk>();
  chunk->num_sequences = lines->num_lines();
  for (const JsonColumn& column : lines->columns()) chunk->columns.push_back(column.borrow());
  chunk->owner = lines;
  return chunk;
}

}  // namespace sweephand
