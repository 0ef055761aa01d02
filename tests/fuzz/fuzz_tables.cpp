// Tables of text: rows that are found in pieces of any sizes are those that are read, and cells
// are the same however many rows are read at once.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "formats/table_rows.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sweephand {
namespace {

constexpr std::array<std::size_t, 2> kWanted = {0, 2};
constexpr std::size_t kColumns = 3;

// Every row as text: its line, and its cells or its damage.
std::vector<std::string> rows_of(std::string_view text, TableForm form, std::size_t most,
                                 std::int64_t line) {
  std::vector<std::string> rows;
  while (!text.empty()) {
    const TableCells found = read_table(text, form, kColumns, kWanted, most);
    CHECK(found.end > 0 && found.end <= text.size());
    for (std::size_t row = 0; row + 1 < found.lines.size(); ++row) {
      std::string shown = std::to_string(line + found.lines[row]);
      for (const TableCells::Column& column : found.columns) {
        CHECK(column.offsets.size() == found.lines.size());
        CHECK(column.offsets.back() == static_cast<std::int64_t>(column.bytes.size()));
        const auto* const bytes = column.bytes.data();
        shown += '|';
        shown.append(bytes + column.offsets[row], bytes + column.offsets[row + 1]);
      }
      const auto wrong = found.wrong.find(static_cast<std::int64_t>(row));
      rows.push_back(shown + (wrong == found.wrong.end() ? "" : "!" + wrong->second));
    }
    line += found.lines.back();
    text.remove_prefix(found.end);
  }
  return rows;
}

// The same, of rows that a finder finds in pieces: the input's bytes are their sizes.
std::vector<std::string> rows_in_pieces(std::string_view text, TableForm form) {
  std::vector<std::string> rows;
  RowFinder finder(form);
  std::int64_t line = 0;
  std::size_t begin = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t size = std::min<std::size_t>(text.size() - at, 1 + (text[at] & 15));
    const std::size_t end = finder.pass_all(text.substr(at, size));
    CHECK(end <= size);
    at += size;
    while (at < text.size() && finder.state() != RowFinder::State::kRow)
      at += finder.pass_row(text.substr(at, 3));
    const std::string_view part = text.substr(begin, at - begin);
    for (std::string& row : rows_of(part, form, part.size(), line))
      rows.push_back(std::move(row));
    line += std::ranges::count(part, '\n');
    begin = at;
  }
  return rows;
}

void run(Input input) {
  const auto* const first = reinterpret_cast<const char*>(input.data());
  const std::vector<char> copy(first, first + input.size());
  const std::string_view text(copy.data(), copy.size());
  for (const TableForm form :
       {TableForm{',', '"'}, TableForm{'\t', '\''}, TableForm{',', {}}}) {
    const std::vector<std::string> all = rows_of(text, form, text.size(), 0);
    CHECK(rows_of(text, form, 1, 0) == all);
    CHECK(rows_in_pieces(text, form) == all);
  }
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
