// The samples of one stream in CNTK's text format.
//
//   |name 1.5 -2 3e1     dense: numbers       |name 7:1.5 12:-2     sparse: index:number
//    ^    ^        ^                           ^    ^          ^
//    match read    end                         match read      end
#pragma once

#include "formats/numbers.hpp"
#include "read/column.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace sweephand {

// The user's declarations for a file in CNTK's text format.
struct CtfStream {
  std::string field;            // the name in the file, without "|"
  std::uint64_t dimension = 1;  // numbers in a dense sample, or the bound of a sparse index
  bool is_sparse = false;
  ElementType type = ElementType::kFloat32;
  bool defines_mb_size = false;
};

struct CtfFormat {
  std::vector<CtfStream> streams;
  bool skip_sequence_ids = false;  // every line is a sequence of one sample
  bool allow_blank_lines = false;
  bool allow_nonfinite = false;  // inf and nan are numbers
  std::uint64_t max_line_bytes = std::uint64_t{256} << 20;
};

// Throws std::invalid_argument when the streams cannot be read from such a file.
void check(const CtfFormat& format);

inline constexpr std::uint64_t kCtfPadding = 96;  // bytes behind the text that may be read

inline bool is_blank(char byte) noexcept { return byte == ' ' || byte == '\t'; }

// The line feed after `text_end`, if the last line has none, is not part of a CR LF.
inline bool is_line_end(const char* text, const char* text_end) noexcept {
  return *text == '\n' || (*text == '\r' && text[1] == '\n' && text + 1 != text_end);
}

// The error in a sample.
struct CtfFault {
  enum class Kind : std::uint8_t {
    kNumber,       // no number
    kNumberRange,  // beyond the finite values of the type
    kFraction,     // an integer was wanted
    kDelimiter,    // a number is followed by something else than a blank, "|" or the line's end
    kIndex,        // no index
    kIndexRange,   // an index beyond the dimension
    kColon,        // no ":" behind an index
    kTooMany,      // more numbers than the dimension
    kTooFew,       // fewer, which pad() may make good
    kRepeated,     // an index twice; both were kept
  };
  Kind kind = Kind::kNumber;
  const char* at = nullptr;
  const char* end = nullptr;  // of a sample that is kept; null when it is lost
};

class CtfColumn {
 public:
  explicit CtfColumn(const CtfStream& stream);
  CtfColumn(const CtfColumn&) = delete;
  CtfColumn& operator=(const CtfColumn&) = delete;
  virtual ~CtfColumn() = default;

  // Where the name ends if it begins at `text`; null if another name does.
  const char* match(const char* text) const noexcept {
    std::uint64_t word = 0;
    std::memcpy(&word, text, sizeof word);
    if (((word ^ name_word_) & name_mask_) != 0) return nullptr;
    // A mismatch comes no later than the line's end, which no name has.
    if (name_.size() > sizeof word &&
        !std::equal(name_.begin() + sizeof word, name_.end(), text + sizeof word))
      return nullptr;
    const char* const end = text + name_.size();
    return static_cast<unsigned char>(*end) <= ' ' || *end == '|' ? end : nullptr;
  }

  // Adds the sample whose values begin at `text`, and returns where it ends: a "|" or the end
  // of the line. Null when something is wrong; then fault() has the reason. REQUIRES: a line
  // feed is at `text_end` or before, and kCtfPadding more bytes may be read
  virtual const char* read(const char* text, const char* text_end) = 0;
  const CtfFault& fault() const noexcept { return fault_; }

  // Adds the sample that had too few values, padded with zeros.
  virtual void pad() = 0;

  // Ends a sequence of the samples since the last one.
  void end_sequence();

  // Forgets the samples since the last sequence.
  virtual void drop_sequence() = 0;

  // Forgets all.
  void clear();

  // Makes room for `times` as much as there is.
  virtual void reserve(double times);

  // Frees spare room of more than a quarter of the used room.
  virtual void fit();

  std::uint64_t num_samples() const noexcept { return num_samples_; }
  std::uint64_t num_values() const noexcept { return num_values_; }
  // The least dimension that all indices met so far fit into; 0 of a dense stream.
  std::uint64_t num_indices() const noexcept { return num_indices_; }
  std::uint64_t num_new_samples() const noexcept {  // since the last sequence
    return num_samples_ - static_cast<std::uint64_t>(sample_offsets_.back());
  }

  // Valid as long as this object, and until it changes.
  virtual Column borrow() const = 0;
  virtual std::uint64_t num_bytes() const = 0;

 protected:
  // Cuts values to the used ones, but keeps at least one: an empty array would mean values
  // elsewhere.
  template <class Values>
  static void cut(Values& values, std::size_t used) {
    values.resize(std::max<std::size_t>(used, 1));
    free_room(values);
  }

  std::vector<std::int64_t> sample_offsets_{0};
  std::uint64_t num_samples_ = 0;
  std::uint64_t num_values_ = 0;
  std::uint64_t num_indices_ = 0;
  CtfFault fault_;

 private:
  std::string name_;
  std::uint64_t name_word_ = 0;  // the first eight bytes of the name
  std::uint64_t name_mask_ = 0;  // those of them that it has
};

// Throws std::invalid_argument when text cannot be read into the stream's type.
std::unique_ptr<CtfColumn> make_column(const CtfStream& stream, bool allow_nonfinite);

}  // namespace sweephand
