#include "formats/ctf.hpp"

#include "base/error.hpp"
#include "formats/ctf_scanner.hpp"
#include "formats/ledger.hpp"
#include "formats/line_blocks.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace sweephand {

CtfDeserializer::CtfDeserializer(CtfFormat format, std::vector<CtfFile> files,
                                 std::shared_ptr<const CtfChunks> chunks)
    : format_(std::move(format)), files_(std::move(files)), chunks_(std::move(chunks)) {
  check(format_);
  if (chunks_->num_files() != files_.size())
    throw std::invalid_argument("chunks must be of " + std::to_string(files_.size()) +
                                " files, got " + std::to_string(chunks_->num_files()));
}

std::shared_ptr<const Chunk> CtfDeserializer::load(std::uint64_t chunk_number) {
  const std::vector<CtfPiece> chunk = chunks_->of(chunk_number);
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
