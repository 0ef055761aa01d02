#include "formats/table_rows.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sweephand {
namespace {

constexpr std::size_t kUnwanted = static_cast<std::size_t>(-1);

bool is_line_end(char byte) noexcept { return byte == '\n' || byte == '\r'; }

void append(std::vector<std::uint8_t>& bytes, std::string_view text) {
  bytes.insert(bytes.end(), text.begin(), text.end());
}

// Appends a value as it stands in the text, without its quotes.
void append_value(std::vector<std::uint8_t>& bytes, std::string_view value, TableForm form) {
  if (!form.quote || !value.starts_with(*form.quote)) return append(bytes, value);
  value.remove_prefix(1);
  for (;;) {
    const std::size_t size = std::min(value.find(*form.quote), value.size());
    append(bytes, value.substr(0, size));
    value.remove_prefix(std::min(size + 1, value.size()));
    if (value.empty()) return;
    bytes.push_back(static_cast<std::uint8_t>(*form.quote));
    value.remove_prefix(1);
  }
}

// Where the value that goes on at `at` ends; the size of the text, if it does not.
std::size_t find_end(std::string_view text, std::size_t at, char delimiter) noexcept {
  while (at < text.size() && text[at] != delimiter && !is_line_end(text[at])) ++at;
  return at;
}

// The damage of a row with this many values; empty: it has none.
std::string damage(const RowFinder& finder, std::size_t num_values, std::size_t num_columns) {
  if (finder.is_damaged())
    return "text follows a closing quote; where quotes are letters, give quoting=None";
  if (finder.state() == RowFinder::State::kQuoted)
    return "a quote is not closed; where quotes are letters, give quoting=None";
  if (num_values == num_columns) return {};
  return "it has " + std::to_string(num_values) + (num_values == 1 ? " value" : " values") +
         ", and the table " + std::to_string(num_columns) +
         (num_columns == 1 ? " column" : " columns");
}

}  // namespace

TextLines split_lines(std::span<const std::uint8_t> text) {
  TextLines lines{.bytes = {}, .offsets = {0}};
  lines.bytes.reserve(text.size());
  while (!text.empty()) {
    const auto* const end =
        static_cast<const std::uint8_t*>(std::memchr(text.data(), '\n', text.size()));
    const std::size_t next =
        end == nullptr ? text.size() : static_cast<std::size_t>(end - text.data()) + 1;
    std::size_t size = end == nullptr ? next : next - 1;
    if (end != nullptr && size > 0 && text[size - 1] == '\r') --size;
    lines.bytes.insert(lines.bytes.end(), text.data(), text.data() + size);
    lines.offsets.push_back(static_cast<std::int64_t>(lines.bytes.size()));
    text = text.subspan(next);
  }
  return lines;
}

std::size_t RowFinder::end_value(std::string_view text, std::size_t at) noexcept {
  end_bytes_ = 1;
  state_ = State::kRow;
  if (text[at] == form_.delimiter) {
    state_ = State::kValue;
  } else if (text[at] == '\r') {
    if (at + 1 == text.size()) state_ = State::kReturn;
    if (text.substr(at + 1).starts_with('\n')) end_bytes_ = 2;
  }
  return at + end_bytes_;
}

std::size_t RowFinder::pass_value(std::string_view text) {
  std::size_t at = 0;
  end_bytes_ = 0;
  while (at < text.size()) {
    switch (state_) {
      case State::kReturn:
        state_ = State::kRow;
        return text.front() == '\n' ? 1 : 0;
      case State::kRow:
        is_damaged_ = false;
        [[fallthrough]];
      case State::kValue:
        state_ = form_.quote == text[at] ? State::kQuoted : State::kPlain;
        if (state_ == State::kQuoted) ++at;
        break;
      case State::kPlain:
        at = find_end(text, at, form_.delimiter);
        return at < text.size() ? end_value(text, at) : at;
      case State::kDamaged:
        at = find_end(text, at, '\n');
        return at < text.size() ? end_value(text, at) : at;
      case State::kQuoted:
        at = std::min(text.find(*form_.quote, at), text.size());
        if (at < text.size()) {
          state_ = State::kClosed;
          ++at;
        }
        break;
      case State::kClosed:
        if (text[at] == form_.delimiter || is_line_end(text[at])) return end_value(text, at);
        state_ = form_.quote == text[at] ? State::kQuoted : State::kDamaged;
        is_damaged_ = state_ == State::kDamaged;
        ++at;
        break;
    }
  }
  return at;
}

std::size_t RowFinder::pass_row(std::string_view text) {
  std::size_t at = 0;
  do {
    at += pass_value(text.substr(at));
  } while (at < text.size() && state_ != State::kRow);
  return at;
}

std::size_t RowFinder::pass_all(std::string_view text) {
  std::size_t last = 0;
  for (std::size_t at = 0; at < text.size();) {
    at += pass_row(text.substr(at));
    if (state_ == State::kRow || state_ == State::kReturn) last = at;
  }
  return last;
}

TableCells read_table(std::string_view text, TableForm form, std::size_t num_columns,
                      std::span<const std::size_t> wanted, std::size_t max_bytes) {
  std::vector<std::size_t> places(num_columns, kUnwanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (wanted[i] >= num_columns) throw std::invalid_argument("there is no such column");
    places[wanted[i]] = i;
  }
  TableCells found;
  found.columns.resize(wanted.size(), {.bytes = {}, .offsets = {0}});
  RowFinder finder(form);
  std::int64_t num_lines = 0;
  std::int64_t num_rows = 0;
  std::size_t at = 0;
  while (at < text.size() && (at < max_bytes || num_rows == 0)) {
    if (is_line_end(text[at])) {  // a row without text
      if (text[at++] == '\n') ++num_lines;
      continue;
    }
    found.lines.push_back(num_lines);
    const std::size_t begin = at;
    std::size_t num_values = 0;
    do {
      const std::size_t size = finder.pass_value(text.substr(at));
      const std::size_t place = num_values < num_columns ? places[num_values] : kUnwanted;
      if (place != kUnwanted)
        append_value(found.columns[place].bytes, text.substr(at, size - finder.end_bytes()),
                     form);
      at += size;
      ++num_values;
    } while (at < text.size() && finder.state() != RowFinder::State::kRow);
    if (finder.state() == RowFinder::State::kValue) ++num_values;  // and the text ends
    num_lines += std::ranges::count(text.substr(begin, at - begin), '\n');
    std::string reason = damage(finder, num_values, num_columns);
    for (TableCells::Column& column : found.columns) {
      if (!reason.empty()) column.bytes.resize(static_cast<std::size_t>(column.offsets.back()));
      column.offsets.push_back(static_cast<std::int64_t>(column.bytes.size()));
    }
    if (!reason.empty()) found.wrong.emplace(num_rows, std::move(reason));
    ++num_rows;
  }
  found.lines.push_back(num_lines);
  found.end = at;
  return found;
}

}  // namespace sweephand
