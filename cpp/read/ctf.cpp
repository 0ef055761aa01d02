#include "read/ctf.hpp"

#include "base/error.hpp"
#include "read/column_vector.hpp"
#include "read/ctf_scanner.hpp"
#include "read/ledger.hpp"
#include "read/line_blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace sweephand {
namespace {

constexpr std::size_t kSampledBytes = std::size_t{1} << 18;

}  // namespace

CtfDeserializer::CtfDeserializer(CtfFormat format, std::vector<CtfFile> files,
                                 std::vector<CtfChunk> chunks)
    : format_(std::move(format)), files_(std::move(files)), chunks_(std::move(chunks)) {
  check(format_);
  const auto lost = [this](const CtfChunk& chunk) { return chunk.file >= files_.size(); };
  if (std::ranges::any_of(chunks_, lost))
    throw std::invalid_argument("a chunk's file must be below " +
                                std::to_string(files_.size()));
}

std::shared_ptr<const Chunk> CtfDeserializer::load(std::uint64_t chunk_number) {
  const CtfChunk& chunk = chunks_.at(chunk_number);
  const CtfFile& source = files_[chunk.file];
  const Place place{.file = source.path, .offset = chunk.offset, .chunk = chunk_number};

  const File file(source.path, source.tag);
  Ledger ledger(std::numeric_limits<std::uint64_t>::max());
  CtfScanner scanner(
      format_, ledger,
      {.file = source.path, .ignore_ids = source.ignore_ids, .first_line = chunk.first_line});
  LineBlocks blocks(file, chunk.offset, chunk.offset + chunk.bytes, format_.max_line_bytes,
                    kCtfPadding);
  // The first lines tell how much room all will take: growing step by step costs as much as
  // reading.
  bool is_first = true;
  for (std::string_view lines = blocks.next(); !lines.empty(); lines = blocks.next()) {
    scanner.scan(lines, blocks.offset());
    if (std::exchange(is_first, false)) {
      scanner.reserve(1.1 * static_cast<double>(chunk.bytes) /
                      static_cast<double>(lines.size()));
    }
  }
  scanner.finish();
  const std::uint64_t num_sequences = scanner.sequences().keys.size();
  const std::uint64_t num_items = ledger.offsets().size();
  if (num_sequences != chunk.num_sequences || num_items != chunk.num_items)
    throw StaleError("the index says " + std::to_string(chunk.num_sequences) +
                         " sequences with " + std::to_string(chunk.num_items) +
                         " errors, the file has " + std::to_string(num_sequences) + " with " +
                         std::to_string(num_items) + "; build the index again",
                     place);

  const auto columns = std::make_shared<CtfScanner::Columns>(std::move(scanner.columns()));
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = num_sequences;
  result->owner = columns;
  for (const auto& column : *columns) {
    result->columns.push_back(column->borrow());
    result->bytes += column->num_bytes();
  }
  return result;
}

}  // namespace sweephand
