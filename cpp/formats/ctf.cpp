#include "formats/ctf.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kMostFromEntry = std::uint64_t{1} << 30U;

void require(bool is_so, const char* what) {
  if (!is_so) throw std::invalid_argument(std::string("an index of text has wrong ") + what);
}

bool begin_files(std::span<const std::int64_t> starts, std::size_t num_files,
                 std::uint64_t total) {
  return starts.size() == num_files + 1 && starts.front() == 0 &&
         std::ranges::is_sorted(starts) && std::cmp_equal(starts.back(), total);
}

void check(const CtfPlaces& places) {
  const std::size_t num_files = places.sizes.size();
  require(begin_files(places.starts, num_files, places.offsets.size()), "sequences");
  require(places.lines.size() == places.offsets.size(), "lines");
  require(begin_files(places.item_starts, num_files, places.item_offsets.size()), "items");
}

std::pair<std::uint64_t, std::uint64_t> bounds(std::span<const std::int64_t> starts,
                                               std::size_t file) {
  return {static_cast<std::uint64_t>(starts[file]),
          static_cast<std::uint64_t>(starts[file + 1])};
}

// A piece of a file, [begin, stop) of its bytes, that begins with sequence `first`.
CtfPiece piece_of(const CtfPlaces& places, std::size_t file, std::uint64_t first,
                  std::uint64_t end, std::uint64_t stop) {
  const std::uint64_t begin = places.offsets[first];
  if (stop < begin) throw std::invalid_argument("a piece ends before it begins");
  const auto [first_item, end_item] = bounds(places.item_starts, file);
  const auto items = places.item_offsets.subspan(first_item, end_item - first_item);
  // Those at the end of a file belong to its last piece.
  const bool is_last = end == bounds(places.starts, file).second;
  const auto last_item = is_last ? items.end() : std::ranges::lower_bound(items, stop);
  const auto num_items = last_item - std::ranges::lower_bound(items, begin);
  return {.offset = begin,
          .bytes = stop - begin,
          .first_line = places.lines[first],
          .num_sequences = end - first,
          .num_items = static_cast<std::uint64_t>(num_items),
          .file = file};
}

// True if a piece may begin at a place of a file, after the piece that begins at another.
bool may_begin(const std::optional<std::vector<std::uint64_t>>& entries, std::uint64_t before,
               std::uint64_t place) {
  if (!entries || place - before > kMostFromEntry) return true;
  return std::ranges::upper_bound(*entries, before) !=
         std::ranges::upper_bound(*entries, place);
}

std::vector<CtfPiece> cut(const CtfPlaces& places, std::uint64_t most_bytes,
                          const CtfChunks::Entries& entries) {
  check(places);
  require(entries.size() == places.sizes.size(), "entries");
  std::vector<CtfPiece> pieces;
  for (std::size_t file = 0; file < places.sizes.size(); ++file) {
    auto [first, end] = bounds(places.starts, file);
    if (first == end) continue;
    std::uint64_t begin = places.offsets[first];
    std::uint64_t full_from = begin;  // begin of the run of sequences that becomes too long
    std::uint64_t place = begin;
    for (std::uint64_t i = first; i < end; ++i) {
      const std::uint64_t next = i + 1 < end ? places.offsets[i + 1] : places.sizes[file];
      if (i != first && next - full_from > most_bytes) {
        full_from = place;
        if (may_begin(entries[file], begin, place)) {
          pieces.push_back(piece_of(places, file, std::exchange(first, i), i, place));
          begin = place;
        }
      }
      place = next;
    }
    pieces.push_back(piece_of(places, file, first, end, place));
  }
  return pieces;
}

// The first piece of every chunk, and the end.
Starts join(std::span<const CtfPiece> pieces, std::uint64_t most_bytes) {
  std::vector<std::uint64_t> firsts;
  std::uint64_t num_bytes = 0;  // of the last chunk
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool is_full = num_bytes > most_bytes || pieces[i].bytes > most_bytes - num_bytes;
    if (firsts.empty() || is_full) {
      firsts.push_back(i);
      num_bytes = 0;
    }
    num_bytes += pieces[i].bytes;
  }
  firsts.push_back(pieces.size());
  return Starts::at(std::move(firsts));
}

Starts sequences_of(std::span<const CtfPiece> pieces, const Starts& first_pieces) {
  std::vector<std::uint64_t> sums{0};
  for (std::uint64_t chunk = 0; chunk < first_pieces.num_counts(); ++chunk) {
    sums.push_back(sums.back());
    for (const CtfPiece& piece : pieces.subspan(first_pieces[chunk], first_pieces.count(chunk)))
      sums.back() += piece.num_sequences;
  }
  return Starts::at(std::move(sums));
}

}  // namespace

CtfChunks::CtfChunks(const CtfPlaces& places, std::uint64_t most_bytes, const Entries& entries)
    : num_files_(places.sizes.size()),
      pieces_(cut(places, most_bytes, entries)),
      first_pieces_(join(pieces_, most_bytes)),
      sequences_(sequences_of(pieces_, first_pieces_)) {}

CtfDeserializer::CtfDeserializer(CtfFormat format, std::vector<CtfFile> files,
                                 std::shared_ptr<const CtfChunks> chunks)
    : format_(std::move(format)), files_(std::move(files)), chunks_(std::move(chunks)) {
  check(format_);
  if (chunks_->num_files() != files_.size())
    throw std::invalid_argument("chunks must be of " + std::to_string(files_.size()) +
                                " files, got " + std::to_string(chunks_->num_files()));
}

std::shared_ptr<const Chunk> CtfDeserializer::load(std::uint64_t chunk_number) {
  const std::span<const CtfPiece> chunk = chunks_->of(chunk_number);
  std::uint64_t num_bytes = 0;
  for (const CtfPiece& piece : chunk) num_bytes += piece.bytes;
  CtfReader reader(format_, num_bytes);
  for (const CtfPiece& piece : chunk) {
    const CtfFile& file = files_[piece.file];
    reader.read(File(file.path, file.tag), piece, file.ignore_ids);
  }
  return reader.take();
}

CtfReader::CtfReader(const CtfFormat& format, std::uint64_t num_bytes)
    : format_(format),
      num_bytes_(num_bytes),
      ledger_(std::numeric_limits<std::uint64_t>::max()),
      scanner_(format, ledger_, {}) {}

void CtfReader::read(const ByteSource& source, const CtfPiece& piece, bool ignore_ids) {
  const std::uint64_t sequences_before = scanner_.num_sequences();
  const std::uint64_t items_before = ledger_.offsets().size();
  scanner_.enter(
      {.file = source.path(), .ignore_ids = ignore_ids, .first_line = piece.first_line});
  LineBlocks blocks(source, piece.offset, piece.offset + piece.bytes, format_.max_line_bytes,
                    kCtfPadding);
  for (std::string_view lines = blocks.next(); !lines.empty(); lines = blocks.next()) {
    scanner_.scan(lines, blocks.offset());
    // The first lines give an estimate of the memory for all: growing step by step costs as
    // much as reading.
    if (!std::exchange(is_reserved_, true))
      scanner_.reserve(1.1 * static_cast<double>(num_bytes_) /
                       static_cast<double>(lines.size()));
  }
  scanner_.finish();
  const std::uint64_t num_sequences = scanner_.num_sequences() - sequences_before;
  const std::uint64_t num_items = ledger_.offsets().size() - items_before;
  if (num_sequences != piece.num_sequences || num_items != piece.num_items)
    throw StaleError("the index says " + std::to_string(piece.num_sequences) +
                         " sequences with " + std::to_string(piece.num_items) +
                         " errors, the file has " + std::to_string(num_sequences) + " with " +
                         std::to_string(num_items) + "; build the index again",
                     {.file = source.path(), .offset = piece.offset});
}

std::shared_ptr<Chunk> CtfReader::take() {
  const auto columns = std::make_shared<CtfScanner::Columns>(std::move(scanner_.columns()));
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = scanner_.num_sequences();
  result->skipped = scanner_.sequences().skipped;
  result->owner = columns;
  for (const auto& column : *columns) {
    column->fit();
    result->columns.push_back(column->borrow());
    result->bytes += column->num_bytes();
  }
  return result;
}

}  // namespace sweephand
