#include "read/ctf_scanner.hpp"

#include "read/decimal.hpp"
#include "read/find_byte.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace sweephand {
namespace {

// The bytes from `at` on up to `size`, readable in a message.
std::string excerpt(const char* at, const char* end, std::ptrdiff_t size) {
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char* p = at; p != end && p - at < size; ++p) {
    const auto byte = static_cast<unsigned char>(*p);
    if (byte >= 0x20 && byte < 0x7f) {
      text += *p;
    } else {
      text += {'\\', 'x', kDigits[byte / 16], kDigits[byte % 16]};
    }
  }
  return text;
}

std::string describe_found(const char* at, const char* line_end) {
  const char* end = at;
  while (end != line_end && !is_blank(*end) && *end != '|') ++end;
  if (end == at && at != line_end) ++end;
  return at == line_end ? "the end of the line" : "'" + excerpt(at, end, 24) + "'";
}

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

}  // namespace

void check(const CtfFormat& format) {
  if (format.streams.empty()) throw std::invalid_argument("there must be a stream");
  std::uint64_t num_sizes = 0;
  for (const CtfStream& stream : format.streams) {
    const std::string field = "field '" + stream.field + "'";
    const auto unfit = [](char byte) {
      return static_cast<unsigned char>(byte) <= ' ' || byte == '|';
    };
    if (stream.field.empty() || stream.field.front() == '#' ||
        std::ranges::any_of(stream.field, unfit))
      throw std::invalid_argument(field +
                                  " cannot be a name: it must have no blank, '|' or "
                                  "control character, and not begin with '#'");
    const auto same = [&](const CtfStream& other) { return other.field == stream.field; };
    if (std::ranges::count_if(format.streams, same) > 1)
      throw std::invalid_argument(field + " is declared twice");
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (stream.dimension == 0 || stream.dimension > kMost)
      throw std::invalid_argument(field + ": the shape must hold 1 to 2^31 - 1 numbers, got " +
                                  std::to_string(stream.dimension));
    num_sizes += stream.defines_mb_size ? 1 : 0;
  }
  if (num_sizes > 1) throw std::invalid_argument("only one stream may say defines_mb_size");
}

CtfScanner::CtfScanner(const CtfFormat& format, Ledger& ledger, Options options)
    : format_(format),
      ledger_(ledger),
      options_(std::move(options)),
      line_(options_.first_line) {
  check(format);
  for (const CtfStream& stream : format.streams) {
    columns_.push_back(make_column(stream, format.allow_nonfinite));
    if (stream.defines_mb_size) size_stream_ = &stream;
  }
}

void CtfScanner::scan(std::string_view lines, std::uint64_t offset) {
  text_ = lines;
  text_offset_ = offset;
  const char* const end = lines.data() + lines.size();
  const char* text = lines.data();
  while (text < end && !ledger_.is_exhausted()) text = scan_line(text) + 1;
}

void CtfScanner::reserve(double times) {
  for (const auto& column : columns_) column->reserve(times);
}

void CtfScanner::finish() { end_sequence(); }

// Returns the line feed.
const char* CtfScanner::scan_line(const char* text) {
  const char* const text_end = text_.data() + text_.size();
  row_ = {.begin = text};
  text = scan_id(text);
  for (;;) {
    while (is_blank(*text)) ++text;
    if (*text == '|') {
      text = scan_item(text);
    } else if (is_line_end(text, text_end)) {
      break;
    } else {
      report_row(text, "'|' and the name of a stream", nullptr);
      text = find_pipe_or_line_feed(text);
    }
  }
  end_row();
  ++line_;
  return *text == '\r' ? text + 1 : text;
}

// Begins a sequence unless the current one goes on. Returns what follows the id.
const char* CtfScanner::scan_id(const char* text) {
  if (options_.ignore_ids) {
    begin_sequence(line_);
    while (is_digit(*text)) ++text;
    row_.is_blank = text == row_.begin;
    return text;
  }
  const CtfId found = read_id(text);
  if (!found.is_there) return text;
  if (!sequence_ || sequence_->key != found.id) begin_sequence(found.id);
  row_.is_blank = false;
  return found.end;
}

// A comment, a sample, or the name of neither, from its "|" on.
const char* CtfScanner::scan_item(const char* text) {
  const char* const name = text + 1;
  if (*name == '#') return find_pipe_or_line_feed(name);
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::size_t stream = next_stream_;
    next_stream_ = stream + 1 == columns_.size() ? 0 : stream + 1;
    if (const char* const values = columns_[stream]->match(name))
      return scan_sample(values, stream);
  }
  const char* end = name;
  while (static_cast<unsigned char>(*end) > ' ' && *end != '|') ++end;
  if (end != name) return skip_undeclared({name, end});
  report_row(name, "the name of a stream behind '|'", nullptr);
  return find_pipe_or_line_feed(name);
}

const char* CtfScanner::skip_undeclared(std::string_view name) {
  row_.is_blank = false;
  const auto known = undeclared_.find(name);
  if (known != undeclared_.end()) {
    ++known->second;
  } else {
    undeclared_.emplace(name, 1);
  }
  const char* const stop = find_pipe_or_control(name.data() + name.size());
  if (*stop == '|' || is_line_end(stop, text_.data() + text_.size())) return stop;
  report_row(stop, "no control character", nullptr);
  return find_pipe_or_line_feed(stop);
}

// From behind the name on.
const char* CtfScanner::scan_sample(const char* text, std::size_t stream) {
  const CtfStream& definition = format_.streams[stream];
  CtfColumn& column = *columns_[stream];
  row_.is_blank = false;
  row_.has_size = row_.has_size || &definition == size_stream_;
  const char* end = column.read(text, text_.data() + text_.size());
  if (end == nullptr) {
    const CtfFault& fault = column.fault();
    report_sample(fault, definition);
    // Padding may take far more memory than the text, so it waits for the verdict.
    if (fault.end == nullptr || ledger_.is_exhausted()) return find_pipe_or_line_feed(fault.at);
    if (fault.kind == CtfFault::Kind::kTooFew) column.pad();
    end = fault.end;
  }
  if (++row_.num_samples == columns_.size() + 1)
    report_row(text, "no more samples in a line than there are streams", &definition);
  return end;
}

void CtfScanner::begin_sequence(std::uint64_t key) {
  end_sequence();
  sequence_ = {.key = key, .offset = offset_of(row_.begin), .line = line_};
}

void CtfScanner::end_row() {
  const bool no_sequence = !sequence_;
  if (row_.is_blank && format_.allow_blank_lines) {
    if (options_.ignore_ids) sequence_.reset();
    return;
  }
  if (no_sequence)
    throw DataError("expected the file to begin with a sequence id or '|', found " +
                        describe_found(row_.begin, find_pipe_or_line_feed(row_.begin)) +
                        "; is it a file in CNTK's text format?",
                    {.file = options_.file, .offset = offset_of(row_.begin)});
  if (row_.num_samples == 0)
    report_row(row_.begin, "a sample of a declared stream in every line", nullptr);
  num_samples_ += row_.num_samples;
  ++sequence_->num_lines;
  sequence_->num_sized_lines += row_.has_size ? 1 : 0;
}

void CtfScanner::end_sequence() {
  if (!sequence_) return;
  check_sequence();
  const Sequence& sequence = *sequence_;
  // A sequence without the size-defining stream is skipped; it keeps a place by its lines.
  const bool sized = size_stream_ != nullptr && sequence.num_sized_lines > 0;
  const std::uint64_t size = sized ? sequence.num_sized_lines : sequence.num_lines;
  if (size > std::numeric_limits<std::uint32_t>::max())
    throw DataError(
        "the sequence has " + std::to_string(size) +
            " samples, and 2^32 - 1 are the most; split it by another id",
        {.file = options_.file, .offset = sequence.offset, .sequence = sequence.key});
  sequences_.keys.push_back(sequence.key);
  sequences_.offsets.push_back(sequence.offset);
  sequences_.lines.push_back(sequence.line);
  sequences_.sizes.push_back(static_cast<std::uint32_t>(size));
  for (const auto& column : columns_) {
    if (options_.keep_values) {
      column->end_sequence();
    } else {
      column->clear();
    }
  }
  sequence_.reset();
}

// Rules that only a whole sequence can break.
void CtfScanner::check_sequence() {
  const CtfStream* absent = nullptr;
  const CtfStream* repeated = nullptr;
  std::uint64_t longest = 0;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    const std::uint64_t num_samples = columns_[i]->num_new_samples();
    if (num_samples == 0 && absent == nullptr) absent = &format_.streams[i];
    if (num_samples > sequence_->num_lines && repeated == nullptr)
      repeated = &format_.streams[i];
    longest = std::max(longest, num_samples);
  }
  const std::string lines = std::to_string(sequence_->num_lines) + " lines";
  if (absent != nullptr) {
    report_sequence("has no sample of this stream", absent);
    sequences_.skipped.push_back(sequences_.keys.size());
    for (const auto& column : columns_) column->drop_sequence();
  } else if (repeated != nullptr) {
    report_sequence("has more samples of this stream than its " + lines, repeated);
  } else if (longest < sequence_->num_lines) {
    report_sequence("has " + lines + ", but no stream has more than " +
                        std::to_string(longest) + " samples",
                    nullptr);
  }
}

std::uint64_t CtfScanner::offset_of(const char* at) const noexcept {
  return text_offset_ + static_cast<std::uint64_t>(at - text_.data());
}

void CtfScanner::report_sample(const CtfFault& fault, const CtfStream& stream) {
  report_row(fault.at, describe_expected(fault.kind, stream), &stream);
}

// `stream` may be null.
void CtfScanner::report_row(const char* at, const std::string& expected,
                            const CtfStream* stream) {
  const char* line_end = at;
  while (*line_end != '\n') ++line_end;
  if (line_end != at && line_end[-1] == '\r' &&
      is_line_end(line_end - 1, text_.data() + text_.size()))
    --line_end;
  const char* const from = std::max(row_.begin, at - 40);
  Item item{.reason = "expected " + expected + ", found " + describe_found(at, line_end) +
                      " in \"" + excerpt(from, line_end, 80) + "\"",
            .place = {.file = options_.file, .offset = offset_of(at)},
            .line = line_ + 1,
            .column = static_cast<std::uint64_t>(at - row_.begin) + 1,
            .caused_by = row_.first_fault};
  if (stream != nullptr) item.place.stream = stream->field;
  if (sequence_) item.place.sequence = sequence_->key;
  row_.is_blank = false;
  if (!row_.first_fault) row_.first_fault = offset_of(at);
  if (sequence_ && !sequence_->first_fault) sequence_->first_fault = row_.first_fault;
  ledger_.add(std::move(item));
}

// `stream` may be null.
void CtfScanner::report_sequence(const std::string& reason, const CtfStream* stream) {
  Item item{
      .reason = "the sequence " + reason,
      .place = {.file = options_.file, .offset = sequence_->offset, .sequence = sequence_->key},
      .line = sequence_->line + 1,
      .caused_by = sequence_->first_fault};
  if (stream != nullptr) item.place.stream = stream->field;
  ledger_.add(std::move(item));
}

}  // namespace sweephand
