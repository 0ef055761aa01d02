#include "read/ctf.hpp"

#include "base/error.hpp"
#include "read/ctf_scanner.hpp"
#include "read/ledger.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <variant>

namespace sweephand {
namespace {

Column borrow(const CtfColumn& column, const CtfStream& stream) {
  Column result{.sample_offsets = column.sample_offsets.data(),
                .sample_elements = stream.dimension,
                .type = stream.type};
  std::visit(
      [&result](const auto& values) {
        result.values = reinterpret_cast<const std::byte*>(values.data());
        result.element_bytes = sizeof(values[0]);
      },
      column.values);
  if (stream.is_sparse) {
    result.element_offsets = column.element_offsets.data();
    result.indices = column.indices.data();
  }
  return result;
}

std::uint64_t num_bytes(const CtfColumn& column) {
  const auto bytes = [](const auto& values) { return values.capacity() * sizeof(values[0]); };
  return std::visit(bytes, column.values) + bytes(column.indices) +
         bytes(column.element_offsets) + bytes(column.sample_offsets);
}

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

std::shared_ptr<const Chunk> CtfDeserializer::load(std::uint64_t number) {
  const CtfChunk& chunk = chunks_.at(number);
  const CtfFile& source = files_[chunk.file];
  const Place place{.file = source.path, .offset = chunk.offset, .chunk = number};

  const File file(source.path, source.tag);
  const auto text = std::make_unique_for_overwrite<char[]>(chunk.bytes + kCtfPadding);
  file.read(chunk.offset, std::as_writable_bytes(std::span(text.get(), chunk.bytes)));
  std::fill_n(text.get() + chunk.bytes, kCtfPadding, '\n');

  Ledger ledger(std::numeric_limits<std::uint64_t>::max());
  CtfScanner scanner(
      format_, ledger,
      {.file = source.path, .ignore_ids = source.ignore_ids, .first_line = chunk.first_line});
  scanner.scan({text.get(), chunk.bytes}, chunk.offset);
  scanner.finish();
  const std::uint64_t num_sequences = scanner.sequences().keys.size();
  const std::uint64_t num_items = ledger.offsets().size();
  if (num_sequences != chunk.num_sequences || num_items != chunk.num_items)
    throw StaleError("the index says " + std::to_string(chunk.num_sequences) +
                         " sequences with " + std::to_string(chunk.num_items) +
                         " errors, the file has " + std::to_string(num_sequences) + " with " +
                         std::to_string(num_items) + "; build the index again",
                     place);

  const auto columns = std::make_shared<std::vector<CtfColumn>>(std::move(scanner.columns()));
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = num_sequences;
  result->owner = columns;
  for (std::size_t i = 0; i < columns->size(); ++i) {
    result->columns.push_back(borrow((*columns)[i], format_.streams[i]));
    result->bytes += num_bytes((*columns)[i]);
  }
  return result;
}

}  // namespace sweephand
