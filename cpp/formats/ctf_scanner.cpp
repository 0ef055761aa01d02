#include "formats/ctf_scanner.hpp"

#include "formats/ctf_column.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sweephand {
namespace {

std::string escape(std::string_view text) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string escaped;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f) {
      escaped += c;
    } else {
      escaped += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return escaped;
}

// The text found there: the beginning of the rest of the line.
std::string describe_found(std::string_view rest) {
  constexpr std::size_t kMost = 24;
  if (rest.empty()) return "the end of the line";
  // At least one byte, up to the next end of a value.
  const std::size_t size = std::min(rest.find_first_of(" \t|", 1), kMost);
  std::string found = "'";
  found += escape(rest.substr(0, size));
  return found += '\'';
}

// The text between quotation marks, cut after 80 bytes, with its odd bytes escaped.
std::string quote(std::string_view text) {
  std::string quoted = "\"";
  quoted += escape(text.substr(0, 80));
  return quoted += '"';
}

// The text expected at the fault.
std::string describe_expected(CtfFault::Kind kind, const CtfStream& stream) {
  const std::string dimension = std::to_string(stream.dimension);
  switch (kind) {
    case CtfFault::Kind::kNumber:
      return "a number like 5, -0.5 or 3e8";
    case CtfFault::Kind::kNumberRange:
      return "a number within the range of its type";
    case CtfFault::Kind::kFraction:
      return "an integer";
    case CtfFault::Kind::kDelimiter:
      return "a blank, '|' or the end of the line behind a number";
    case CtfFault::Kind::kIndex:
      return "an index and a number like 7:0.5";
    case CtfFault::Kind::kIndexRange:
      return "an index below " + dimension + " (is the declared shape right?)";
    case CtfFault::Kind::kColon:
      return "':' behind the index";
    case CtfFault::Kind::kTooMany:
      return "no number beyond the " + dimension + " of its shape (is it right?)";
    case CtfFault::Kind::kTooFew:
      return dimension + " numbers";
    case CtfFault::Kind::kRepeated:
      return "every index once";
  }
  return {};
}

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 18;  // stays in the processor's cache

// The first "|" or line feed from `text` on. REQUIRES: there is one, and 15 more bytes after it
// may be read
inline const char* find_pipe_or_line_feed(const char* text) noexcept {
#ifdef __SSE2__
  for (;; text += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
    const __m128i found = _mm_or_si128(_mm_cmpeq_epi8(bytes, _mm_set1_epi8('|')),
                                       _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\n')));
    const int mask = _mm_movemask_epi8(found);
    if (mask != 0) return text + std::countr_zero(static_cast<unsigned>(mask));
  }
#else
  while (*text != '|' && *text != '\n') ++text;
  return text;
#endif
}

// The first "|" or control character but the tab. REQUIRES: as above
inline const char* find_pipe_or_control(const char* text) noexcept {
#ifdef __SSE2__
  const __m128i last_control = _mm_set1_epi8(0x1f);
  for (;; text += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text));
    const __m128i control =
        _mm_cmpeq_epi8(_mm_subs_epu8(bytes, last_control), _mm_setzero_si128());
    const __m128i tab = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('\t'));
    const __m128i pipe = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('|'));
    const int mask = _mm_movemask_epi8(_mm_or_si128(_mm_andnot_si128(tab, control), pipe));
    if (mask != 0) return text + std::countr_zero(static_cast<unsigned>(mask));
  }
#else
  const auto is_control = [](char byte) { return static_cast<unsigned char>(byte) < 0x20; };
  while (*text != '|' && (!is_control(*text) || *text == '\t')) ++text;
  return text;
#endif
}

std::string describe_empty_row(const CtfFormat& format) {
  return "a sample of a declared stream in every line, such as '|" +
         format.streams.front().field + "'";
}

}  // namespace

LineBlocks::LineBlocks(const ByteSource& file, std::uint64_t begin, std::uint64_t end,
                       std::uint64_t max_line_bytes, std::uint64_t padding)
    : file_(file),
      end_(end),
      max_line_bytes_(max_line_bytes),
      padding_(padding),
      offset_(begin) {}

std::string_view LineBlocks::next() {
  // Bytes after the last whole line become the beginning of the next block.
  num_held_ -= num_given_;
  offset_ += num_given_;
  if (num_held_ > 0) std::memmove(buffer_.data(), buffer_.data() + num_given_, num_held_);
  num_given_ = 0;
  while (num_given_ == 0 && offset_ + num_held_ < end_) {
    if (num_held_ > max_line_bytes_)
      throw DataError("the line is longer than " + std::to_string(max_line_bytes_) + " bytes",
                      {.file = file_.path(), .offset = offset_});
    const std::uint64_t count = std::min(end_ - offset_ - num_held_, kBlockBytes);
    buffer_.resize(num_held_ + count + padding_);
    const auto added = std::span(buffer_).subspan(num_held_, count);
    file_.read(offset_ + num_held_, std::as_writable_bytes(added));
    const std::uint64_t line_feeds_end = std::string_view(added.data(), count).rfind('\n') + 1;
    if (line_feeds_end > 0) num_given_ = num_held_ + line_feeds_end;
    num_held_ += count;
  }
  if (num_given_ == 0) num_given_ = num_held_;
  std::fill_n(buffer_.begin() + static_cast<std::ptrdiff_t>(num_held_),
              std::min<std::uint64_t>(padding_, buffer_.size() - num_held_), '\n');
  return {buffer_.data(), num_given_};
}

CtfScanner::CtfScanner(const CtfFormat& format, Ledger& ledger, Options options)
    : format_(format),
      ledger_(ledger),
      options_(std::move(options)),
      line_(options_.first_line) {
  check(format);
  is_single_.resize(format.streams.size(), true);
  for (const CtfStream& stream : format.streams) {
    columns_.push_back(make_column(stream, format.allow_nonfinite));
    streams_.push_back(
        {.column = columns_.back().get(), .defines_mb_size = stream.defines_mb_size});
    if (stream.defines_mb_size) size_stream_ = &stream;
  }
}

void CtfScanner::enter(Options options) {
  end_sequence();
  options_ = std::move(options);
  line_ = options_.first_line;
}

void CtfScanner::scan(std::string_view lines, std::uint64_t offset) {
  text_ = lines;
  text_offset_ = offset;
  const char* const end = lines.data() + lines.size();
  const char* text = lines.data();
  ItemFinder items(text);
  is_exhausted_ = ledger_.is_exhausted();
  while (text < end && !is_exhausted_) text = scan_line(text, items) + 1;
}

std::vector<std::uint64_t> CtfScanner::num_met() const {
  std::vector<std::uint64_t> result;
  for (const Stream& stream : streams_) result.push_back(stream.num_met);
  return result;
}

void CtfScanner::reserve(double times) {
  for (const auto& column : columns_) column->reserve(times);
}

void CtfScanner::finish() { end_sequence(); }

// Returns the line feed, or any byte when the budget is exhausted.
const char* CtfScanner::scan_line(const char* text, ItemFinder& items) {
  row_ = {.begin = text};
  text = scan_id(text);
  while (!is_exhausted_) {
    text = pass_blanks(text, items.next(text));
    while (*text == '|' && text[1] == '#') text = items.next();  // after a comment
    if (is_exhausted_ || *text != '|') break;
    text = scan_item(text);
  }
  if (is_exhausted_) return text;
  end_row();
  ++line_;
  return *text == '\r' ? text + 1 : text;
}

// Goes on to the next item or line feed at `item`, or to the CR before the latter.
const char* CtfScanner::pass_blanks(const char* text, const char* item) {
  const bool is_short = text == item || (text + 1 == item && is_blank(*text));
  return is_short ? item : pass_over_text(text, item);
}

const char* CtfScanner::pass_over_text(const char* text, const char* item) {
  while (is_blank(*text)) ++text;
  if (text == item || is_line_end(text, text_.data() + text_.size())) return text;
  report_row(text, "'|' and the name of a stream", nullptr);
  return item;
}

// Begins a sequence unless the current one continues. Returns the text after the id.
const char* CtfScanner::scan_id(const char* text) {
  if (options_.ignore_ids) {
    begin_sequence(line_);
    while (is_digit(*text)) ++text;
    row_.is_blank = text == row_.begin;
    return text;
  }
  const CtfId found = read_id(text);
  if (!found.is_there) return text;
  if (!in_sequence_ || sequence_.key != found.id) begin_sequence(found.id);
  row_.is_blank = false;
  return found.end;
}

// A sample, or an undeclared name, from its "|" on.
const char* CtfScanner::scan_item(const char* text) {
  const char* const name = text + 1;
  Stream& guess = streams_[next_stream_];
  const char* const values = guess.column->match(name);
  if (values == nullptr) return scan_other(name);
  next_stream_ = next_stream_ + 1 == streams_.size() ? 0 : next_stream_ + 1;
  return scan_sample(values, guess);
}

// The same for a stream other than guessed.
const char* CtfScanner::scan_other(const char* name) {
  const std::size_t guess = next_stream_;
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const char* const values = i == guess ? nullptr : streams_[i].column->match(name);
    if (values == nullptr) continue;
    next_stream_ = i + 1 == streams_.size() ? 0 : i + 1;
    return scan_sample(values, streams_[i]);
  }
  const char* end = name;
  while (static_cast<unsigned char>(*end) > ' ' && *end != '|') ++end;
  if (end == name) {
    report_row(name, "the name of a stream behind '|'", nullptr);
    return find_pipe_or_line_feed(name);
  }
  row_.is_blank = false;
  row_.has_undeclared = true;
  const char* const stop = find_pipe_or_control(end);
  if (*stop == '|' || is_line_end(stop, text_.data() + text_.size())) return stop;
  report_row(stop, "no control character", nullptr, Loss::kNothing);
  return find_pipe_or_line_feed(stop);
}

// From the end of the name on.
const char* CtfScanner::scan_sample(const char* text, Stream& stream) {
  row_.is_blank = false;
  row_.counts = true;
  ++stream.num_met;
  row_.has_size = row_.has_size || stream.defines_mb_size;
  const char* const end = stream.column->read(text, text_.data() + text_.size());
  if (end == nullptr || row_.num_samples == streams_.size())
    return end_odd_sample(text, end, stream);
  ++row_.num_samples;
  return end;
}

// The end of the sample that begins at `text` and has a fault, if `end` is null, or is the
// first beyond the number of streams.
const char* CtfScanner::end_odd_sample(const char* text, const char* end,
                                       const Stream& stream) {
  if (end == nullptr) end = go_on_behind_fault(index_of(stream));
  if (end == nullptr) return find_pipe_or_line_feed(stream.column->fault().at);
  if (++row_.num_samples == streams_.size() + 1)
    report_row(text, "no more samples in a line than there are streams",
               &format_.streams[index_of(stream)], Loss::kNothing);
  return end;
}

// Reports the fault of a sample, and returns the sample's end; null if it is lost.
const char* CtfScanner::go_on_behind_fault(std::size_t stream) {
  const CtfStream& definition = format_.streams[stream];
  const CtfFault& fault = columns_[stream]->fault();
  report_row(fault.at, describe_expected(fault.kind, definition), &definition,
             fault.end == nullptr ? Loss::kSample : Loss::kNothing);
  // Padding may take far more memory than the text, so it waits for the verdict.
  if (fault.end == nullptr || ledger_.is_exhausted()) return nullptr;
  if (fault.kind == CtfFault::Kind::kTooFew) columns_[stream]->pad();
  return fault.end;
}

void CtfScanner::begin_sequence(std::uint64_t key) {
  end_sequence();
  sequence_ = {.key = key, .offset = offset_of(row_.begin), .line = line_};
  in_sequence_ = true;
}

void CtfScanner::end_row() {
  if (!row_.counts) {
    pass_over_row();
    return;
  }
  if (!in_sequence_) refuse_beginning();
  if (row_.num_samples == 0)
    report_row(row_.begin, describe_empty_row(format_), nullptr, Loss::kNothing);
  ++sequence_.num_lines;
  sequence_.num_sized_lines += row_.has_size ? 1 : 0;
  sequence_.num_undeclared_lines += row_.has_undeclared ? 1 : 0;
}

// A line without a sample of a declared stream does not count. If only part of the streams is
// declared, lines with undeclared streams alone are normal.
void CtfScanner::pass_over_row() {
  const bool is_blank = row_.is_blank;
  const bool is_allowed = row_.has_undeclared || (is_blank && format_.allow_blank_lines);
  if (!in_sequence_ && !(is_blank && is_allowed)) refuse_beginning();
  if (!is_allowed) report_row(row_.begin, describe_empty_row(format_), nullptr, Loss::kNothing);
  if (is_blank && options_.ignore_ids) in_sequence_ = false;  // the line begins no sequence
}

void CtfScanner::refuse_beginning() const {
  throw DataError("expected the file to begin with a sequence id or '|', found " +
                      describe_found(rest_of_line(row_.begin)) +
                      "; is it a file in CNTK's text format?",
                  {.file = options_.file, .offset = offset_of(row_.begin)});
}

void CtfScanner::end_sequence() {
  if (!in_sequence_) return;
  check_sequence();
  const std::uint64_t size = sequence_.is_damaged ? num_lines_for_size() : num_sized_samples();
  if (size > std::numeric_limits<std::uint32_t>::max())
    throw DataError(
        "the sequence has " + std::to_string(size) +
            " samples, and 2^32 - 1 are the most; split it by another id",
        {.file = options_.file, .offset = sequence_.offset, .sequence = sequence_.key});
  if (sequence_.is_damaged) {
    sequences_.skipped.push_back(options_.keep_values ? num_sequences_
                                                      : sequences_.keys.size());
    for (const auto& column : columns_) column->drop_sequence();
  } else {
    for (std::size_t i = 0; i < columns_.size(); ++i)
      is_single_[i] = is_single_[i] && columns_[i]->num_new_samples() == 1;
  }
  ++num_sequences_;
  in_sequence_ = false;
  if (options_.keep_values) {
    for (const auto& column : columns_) column->end_sequence();
    return;
  }
  sequences_.keys.push_back(sequence_.key);
  sequences_.offsets.push_back(sequence_.offset);
  sequences_.lines.push_back(sequence_.line);
  sequences_.sizes.push_back(static_cast<std::uint32_t>(size));
  for (const auto& column : columns_) column->clear();
}

// The size of a damaged sequence, which is skipped but keeps its place: its number of lines.
std::uint64_t CtfScanner::num_lines_for_size() const noexcept {
  const std::uint64_t num_sized = sequence_.num_sized_lines;
  return num_sized > 0 ? num_sized : std::max<std::uint64_t>(sequence_.num_lines, 1);
}

// Of the size-defining stream, or of the longest one.
std::uint64_t CtfScanner::num_sized_samples() const noexcept {
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    if (size_stream_ == nullptr || size_stream_ == &format_.streams[i])
      most = std::max(most, columns_[i]->num_new_samples());
  }
  return most;
}

// Rules that only a whole sequence can break.
void CtfScanner::check_sequence() {
  const std::uint64_t num_lines = sequence_.num_lines;
  std::uint64_t longest = 0;
  const CtfStream* repeated = nullptr;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::uint64_t num_samples = columns_[i]->num_new_samples();
    if (num_samples == 0) {
      sequence_.is_damaged = true;
      report_sequence("has no sample of this stream", &format_.streams[i]);
      return;
    }
    if (num_samples > num_lines && repeated == nullptr) repeated = &format_.streams[i];
    longest = std::max(longest, num_samples);
  }
  if (repeated != nullptr)
    report_sequence(
        "has more samples of this stream than its " + std::to_string(num_lines) + " lines",
        repeated);
  // An undeclared stream may be longer.
  if (std::max(longest, sequence_.num_undeclared_lines) < num_lines)
    report_sequence("has " + std::to_string(num_lines) +
                        " lines, but no stream has more than " + std::to_string(longest) +
                        " samples",
                    nullptr);
}

std::uint64_t CtfScanner::offset_of(const char* at) const noexcept {
  return text_offset_ + static_cast<std::uint64_t>(at - text_.data());
}

// The beginning of a line, short enough for a message, without its line end.
std::string_view CtfScanner::rest_of_line(const char* at) const noexcept {
  constexpr std::ptrdiff_t kMost = 128;
  const char* const text_end = text_.data() + text_.size();
  const std::string_view rest(at, at + std::min(kMost, text_end - at));
  std::size_t size = std::min(rest.find('\n'), rest.size());
  if (size > 0 && size < rest.size() && rest[size - 1] == '\r') --size;
  return rest.substr(0, size);
}

// `stream` may be null.
void CtfScanner::report_row(const char* at, const std::string& expected,
                            const CtfStream* stream, Loss loss) {
  if (!in_sequence_) refuse_beginning();
  row_.is_blank = false;
  row_.counts = row_.counts || loss == Loss::kSample;
  sequence_.is_damaged = sequence_.is_damaged || loss == Loss::kSample;
  const char* const excerpt = std::max(row_.begin, at - 40);
  Item item{.reason = "expected " + expected + ", found " + describe_found(rest_of_line(at)) +
                      " in " + quote(rest_of_line(excerpt)),
            .place = {.file = options_.file,
                      .offset = offset_of(at),
                      .sequence = sequence_.key,
                      .line = line_ + 1},
            .column = static_cast<std::uint64_t>(at - row_.begin) + 1,
            .caused_by = row_.first_fault};
  if (stream != nullptr) item.place.stream = stream->field;
  if (!row_.first_fault) row_.first_fault = item.place.offset;
  if (!sequence_.first_fault) sequence_.first_fault = row_.first_fault;
  ledger_.add(std::move(item));
  is_exhausted_ = ledger_.is_exhausted();
}

// `stream` may be null.
void CtfScanner::report_sequence(const std::string& reason, const CtfStream* stream) {
  Item item{.reason = "the sequence " + reason,
            .place = {.file = options_.file,
                      .offset = sequence_.offset,
                      .sequence = sequence_.key,
                      .line = sequence_.line + 1},
            .caused_by = sequence_.first_fault};
  if (stream != nullptr) item.place.stream = stream->field;
  ledger_.add(std::move(item));
  is_exhausted_ = ledger_.is_exhausted();
}

}  // namespace sweephand
