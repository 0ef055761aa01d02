// The scanner of CNTK's text format: it makes the index and reads the values, so that both see
// the same sequences and the same errors.
//
//   id     sample                 comment          undeclared
//   7      |A 0.5   |B 3:1 9:4    |# any text      |other 1 2 3     a line, a row
//          |A 1.5   |B                                              7 goes on: no other id
//   8      |A -2    |B 0:1                                          the next sequence
//
// The grammar is CNTK's; the docstring of `CTFDeserializer` states it, and what is an error.
#pragma once

#include "formats/ctf_column.hpp"
#include "formats/decimal.hpp"
#include "formats/ledger.hpp"
#include "read/byte_source.hpp"

#include <bit>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace sweephand {

// The ends of items and lines of CNTK's text, at every "|" and line feed, found 64 bytes at a
// time. None depends on the one before it, so the processor reads several at once.
//
//   7 |A 1:1 |# text |B 3:1 LF
//     ^      ^       ^      ^
class ItemFinder {
 public:
  static constexpr std::ptrdiff_t kBlock = 64;

  ItemFinder() = default;

  // From `text` on.
  explicit ItemFinder(const char* text) noexcept { look_at(text); }

  // The first one at `text` or after it. REQUIRES: there is one, and kBlock more bytes after it
  // may be read; those before `text` were all returned
  [[gnu::always_inline]] const char* next(const char* text) noexcept {
    if (text - block_ >= kBlock) look_at(text);
    return next();
  }

  // The first one after those that were returned. REQUIRES: as above
  [[gnu::always_inline]] const char* next() noexcept {
    while (found_ == 0) look_at(block_ + kBlock);
    const char* const at = block_ + std::countr_zero(found_);
    found_ &= found_ - 1;
    return at;
  }

 private:
  void look_at(const char* block) noexcept {
    block_ = block;
    found_ = 0;
#ifdef __SSE2__
    for (int i = 0; i < 4; ++i) {
      const __m128i bytes =
          _mm_loadu_si128(reinterpret_cast<const __m128i*>(block + std::ptrdiff_t{16} * i));
      // NOLINTBEGIN(portability-simd-intrinsics): the portable way is below
      const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('|')),
                                         _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
      // NOLINTEND(portability-simd-intrinsics)
      found_ |= std::uint64_t{static_cast<std::uint32_t>(_mm_movemask_epi8(found))} << (16 * i);
    }
#else
    for (int i = 0; i < kBlock; ++i)
      found_ |= std::uint64_t{block[i] == '|' || block[i] == '\n'} << i;
#endif
  }

  const char* block_ = nullptr;
  std::uint64_t found_ = 0;  // bit i: byte i of the block is one that was not returned yet
};

// A part of a text file, block by block, each a run of whole lines.
class LineBlocks {
 public:
  // A line that continues beyond `end` is cut there. `padding` line feeds may be read after
  // every block. `file` must outlive the blocks.
  LineBlocks(const ByteSource& file, std::uint64_t begin, std::uint64_t end,
             std::uint64_t max_line_bytes, std::uint64_t padding);

  // The next lines, valid until the next call; empty at the end. Only the last line may lack
  // its line feed. Throws DataError when a line is longer than allowed.
  std::string_view next();

  // Of the lines that next() returned last, in the file.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  const ByteSource& file_;
  std::uint64_t end_;
  std::uint64_t max_line_bytes_;
  std::uint64_t padding_;
  std::uint64_t offset_;         // of buffer_[0] in the file
  std::uint64_t num_given_ = 0;  // bytes of the buffer that next() returned last
  std::uint64_t num_held_ = 0;   // bytes of the buffer that were read
  std::vector<char> buffer_;
};

// Where the sequence id at the beginning of a line ends, and the id. There is none where there
// are no digits, or more than 64 bits hold.
struct CtfId {
  const char* end = nullptr;
  std::uint64_t id = 0;
  bool is_there = false;
};

inline CtfId read_id(const char* line) noexcept {
  auto [end, id] = read_digits(line);
  bool is_there = end != line;
  if (end - line > 19) is_there = std::from_chars(line, end, id).ec == std::errc{};
  return {.end = end, .id = id, .is_there = is_there};
}

// The sequences of a file or of a part of it, in the order of the file.
struct CtfSequences {
  std::vector<std::uint64_t> keys;     // the sequence id, or the number of the line from 0
  std::vector<std::uint64_t> offsets;  // of the first byte in the file
  std::vector<std::uint64_t> lines;    // number of the first line, from 0
  std::vector<std::uint32_t> sizes;    // in samples; at least 1
  std::vector<std::uint64_t> skipped;  // numbers of those that are damaged: without samples
};

class CtfScanner {
 public:
  using Columns = std::vector<std::unique_ptr<CtfColumn>>;

  struct Options {
    std::string file;              // named in errors
    bool ignore_ids = false;       // every line is a sequence
    bool keep_values = true;       // or the table of sequences, and no values
    std::uint64_t first_line = 0;  // the number of the first line that is scanned
  };

  // `format` and `ledger` must outlive the scanner.
  CtfScanner(const CtfFormat& format, Ledger& ledger, Options options);

  // Goes on with another file, or another place of one: the current sequence ends.
  void enter(Options options);

  // Scans whole lines, which follow those scanned before; only the last line of a file may lack
  // its line feed. `offset` is that of `lines` in the file. Stops at the first error beyond the
  // ledger's budget. REQUIRES: kCtfPadding more bytes after `lines` may be read, and if its
  // last line lacks the line feed they are line feeds
  void scan(std::string_view lines, std::uint64_t offset);

  // Makes room for `times` as many values as there are.
  void reserve(double times);

  // Ends the last sequence.
  void finish();

  std::uint64_t num_lines() const noexcept { return line_ - options_.first_line; }
  // How often each stream was met, also where its sample is lost.
  std::vector<std::uint64_t> num_met() const;
  // Per stream, whether every sequence that is not damaged has exactly one sample of it.
  const std::vector<bool>& is_single() const noexcept { return is_single_; }
  std::uint64_t num_sequences() const noexcept { return num_sequences_; }  // that have ended
  // Those that have ended since the table was emptied; with values, those that are skipped
  // alone.
  CtfSequences& sequences() noexcept { return sequences_; }
  Columns& columns() noexcept { return columns_; }  // in the order of the streams

 private:
  // The data of a stream that every sample uses.
  struct Stream {
    CtfColumn* column = nullptr;
    std::uint64_t num_met = 0;
    bool defines_mb_size = false;
  };
  struct Row {
    const char* begin = nullptr;
    std::uint64_t num_samples = 0;
    bool is_blank = true;         // nothing but blanks and comments
    bool has_size = false;        // the size-defining stream is there
    bool has_undeclared = false;  // a stream that is not declared is there
    bool counts = false;          // a declared stream is there, or a sample was lost
    std::optional<std::uint64_t> first_fault;
  };
  struct Sequence {
    std::uint64_t key = 0;
    std::uint64_t offset = 0;
    std::uint64_t line = 0;
    std::uint64_t num_lines = 0;             // that count
    std::uint64_t num_sized_lines = 0;       // with the size-defining stream
    std::uint64_t num_undeclared_lines = 0;  // with a stream that is not declared
    std::optional<std::uint64_t> first_fault;
    bool is_damaged = false;  // a sample is lost, or a stream absent
  };
  enum class Loss : std::uint8_t { kSample, kNothing };

  // Everything that each line needs is one function to the compiler.
  [[gnu::always_inline]] inline const char* scan_line(const char* text, ItemFinder& items);
  [[gnu::always_inline]] inline const char* scan_id(const char* text);
  [[gnu::always_inline]] inline const char* pass_blanks(const char* text, const char* item);
  const char* pass_over_text(const char* text, const char* item);
  [[gnu::always_inline]] inline const char* scan_item(const char* text);
  [[gnu::always_inline]] inline const char* scan_sample(const char* text, Stream& stream);
  const char* scan_other(const char* name);
  const char* end_odd_sample(const char* text, const char* end, const Stream& stream);
  std::size_t index_of(const Stream& stream) const noexcept {
    return static_cast<std::size_t>(&stream - streams_.data());
  }
  const char* go_on_behind_fault(std::size_t stream);
  void begin_sequence(std::uint64_t key);
  [[gnu::always_inline]] inline void end_row();
  void pass_over_row();
  void end_sequence();
  void check_sequence();
  std::uint64_t num_sized_samples() const noexcept;
  std::uint64_t num_lines_for_size() const noexcept;
  [[noreturn]] void refuse_beginning() const;

  std::uint64_t offset_of(const char* at) const noexcept;
  std::string_view rest_of_line(const char* at) const noexcept;
  void report_row(const char* at, const std::string& expected, const CtfStream* stream,
                  Loss loss = Loss::kSample);
  void report_sequence(const std::string& reason, const CtfStream* stream);

  const CtfFormat& format_;
  Ledger& ledger_;
  Options options_;
  const CtfStream* size_stream_ = nullptr;

  std::uint64_t num_sequences_ = 0;
  CtfSequences sequences_;
  Columns columns_;
  std::vector<Stream> streams_;
  std::vector<bool> is_single_;  // per stream

  std::string_view text_;  // what is scanned now
  std::uint64_t text_offset_ = 0;
  std::uint64_t line_ = 0;
  std::size_t next_stream_ = 0;  // a guess: streams come in the same order line after line
  Row row_;
  Sequence sequence_;
  bool in_sequence_ = false;
  bool is_exhausted_ = false;  // of the ledger
};

}  // namespace sweephand
