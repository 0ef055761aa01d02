#include "formats/json_lines.hpp"

#include "formats/json_column.hpp"
#include "formats/json_text.hpp"
#include "formats/utf8.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace sweephand {
namespace {

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
