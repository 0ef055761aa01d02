// The values of one sample in CNTK's text format.
//
//   |name 1.5 -2 3e1     dense: numbers       |name 7:1.5 12:-2     sparse: index:number
//        ^          ^                              ^             ^
//        text       end                            text          end
#pragma once

#include "read/column.hpp"
#include "read/ctf_format.hpp"

#include <cstdint>
#include <variant>
#include <vector>

namespace sweephand {

// The samples of one stream, one after the other.
struct CtfColumn {
  std::variant<std::vector<float>, std::vector<double>, std::vector<std::int8_t>,
               std::vector<std::int16_t>, std::vector<std::int32_t>, std::vector<std::int64_t>,
               std::vector<std::uint8_t>, std::vector<std::uint16_t>,
               std::vector<std::uint32_t>, std::vector<std::uint64_t>>
      values;
  std::vector<std::int32_t> indices;          // of a sparse stream, one per value
  std::vector<std::int64_t> element_offsets;  // of a sparse stream, one per sample and one more
  std::vector<std::int64_t> sample_offsets;   // one per sequence and one more

  std::uint64_t num_samples = 0;
};

// An empty column. Throws std::invalid_argument when text cannot be read into the type.
CtfColumn make_column(const CtfStream& stream);

// Forgets the samples from `num_samples` on.
void truncate(CtfColumn& column, const CtfStream& stream, std::uint64_t num_samples);

enum class CtfFault : std::uint8_t {
  kNone,
  kNumber,       // no number
  kNumberRange,  // beyond the finite values of the type
  kFraction,     // an integer was wanted
  kDelimiter,    // a number is followed by something else than a blank, "|" or the line's end
  kIndex,        // no index
  kIndexRange,   // an index beyond the dimension
  kColon,        // no ":" behind an index
  kTooMany,      // more numbers than the dimension
  kTooFew,       // fewer; may be padded with zeros
  kRepeated,     // an index twice; both were kept
};

struct CtfSample {
  const char* end = nullptr;  // a "|" or a line's end; meaningless if the sample is lost
  const char* fault_at = nullptr;
  CtfFault fault = CtfFault::kNone;

  // Whether nothing of the sample is kept.
  bool lost() const noexcept { return fault != CtfFault::kNone && fault < CtfFault::kTooFew; }
};

// Adds the sample whose values begin at `text` to the column, unless it is lost; one with too
// few values waits for pad_sample. A line feed is at `text_end` or
// before it, and kDecimalPadding more bytes behind that.
CtfSample read_sample(const char* text, const char* text_end, const CtfStream& stream,
                      bool allow_nonfinite, CtfColumn& column);

// Ends a sample with too few values by zeros.
void pad_sample(const CtfStream& stream, CtfColumn& column);

inline bool is_blank(char byte) noexcept { return byte == ' ' || byte == '\t'; }

// The line feed behind `text_end`, if the last line has none, is not part of a CR LF.
inline bool is_line_end(const char* text, const char* text_end) noexcept {
  return *text == '\n' || (*text == '\r' && text[1] == '\n' && text + 1 != text_end);
}

}  // namespace sweephand
