// Rows of tables of text, and lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sweephand {

// Lines of plain text, without their ends: LF, or CR and LF.
struct TextLines {
  std::vector<std::uint8_t> bytes;    // of all lines, one behind the other
  std::vector<std::int64_t> offsets;  // where each begins, and the end
};

// Text after the last LF is a line too, if it is not empty.
TextLines split_lines(std::span<const std::uint8_t> text);

// Rows of tables of text, by the rules of Python's csv:
//
//   row    value ( delimiter value )* end        a row without any text is none
//   value  text | quote ( text | quote quote )* quote
//   end    LF, CR, CR LF, or the end of the text
//
// A quote begins a quoted value only at the start of the value; elsewhere it is text. If text
// follows a closing quote, the row is damaged, and ends with that line; so is one that is still
// in quotes at the end of the text. RFC 4180, and the states of csv.reader(strict=True).
struct TableForm {
  char delimiter = ',';
  std::optional<char> quote;  // none: quotes are text
};

// Finds the ends of values and rows in a text that comes in pieces of any sizes.
class RowFinder {
 public:
  enum class State : std::uint8_t {
    kRow,     // before a row
    kReturn,  // after the CR that ended a row, and that an LF may follow
    kValue,   // before another value
    kPlain,
    kQuoted,
    kClosed,  // after a quote in a quoted value: the last, or the first of two
    kDamaged,
  };

  explicit RowFinder(TableForm form) noexcept : form_(form) {}

  // Passes the rest of the current value, its delimiter or the end of its row, or all of the
  // text if neither is there. Returns the number of bytes.
  std::size_t pass_value(std::string_view text);

  // The same up to the end of the current row. 0: the row has ended before the text.
  std::size_t pass_row(std::string_view text);

  // Passes all of the text. Returns the end of the last row that ends in it; 0: none does.
  std::size_t pass_all(std::string_view text);

  State state() const noexcept { return state_; }

  // True if text follows a closing quote in the row that was passed last.
  bool is_damaged() const noexcept { return is_damaged_; }

  // Of the value that was passed last: the bytes of its delimiter or line end.
  std::size_t end_bytes() const noexcept { return end_bytes_; }

 private:
  std::size_t end_value(std::string_view text, std::size_t at) noexcept;

  TableForm form_;
  State state_ = State::kRow;
  bool is_damaged_ = false;
  std::size_t end_bytes_ = 0;
};

struct TableCells {
  struct Column {
    std::vector<std::uint8_t> bytes;    // of all cells, without quotes; none of damaged rows
    std::vector<std::int64_t> offsets;  // where each begins, and the end
  };

  std::vector<Column> columns;
  std::vector<std::int64_t> lines;            // LFs before each row, and before `end`
  std::map<std::int64_t, std::string> wrong;  // the damage of rows, by their numbers
  std::size_t end = 0;                        // of the rows in the text
};

// The cells of some columns, in rows of `num_columns`: those that begin in the first
// `max_bytes` of a text of whole rows, but at least one. Throws std::invalid_argument if a
// wanted column is not below `num_columns`.
TableCells read_table(std::string_view text, TableForm form, std::size_t num_columns,
                      std::span<const std::size_t> wanted, std::size_t max_bytes);

}  // namespace sweephand
