#include "read/tfrecord.hpp"

#include "base/error.hpp"
#include "read/record_frames.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <variant>

namespace sweephand {
namespace {

constexpr std::uint64_t kSampledRecords = 64;

Column borrow(const ExampleColumn& column, const ExampleStream& stream) {
  Column result{.sample_offsets = column.sample_offsets.data(),
                .sample_elements = stream.sample_elements};
  std::visit(
      [&result](const auto& values) {
        result.values = reinterpret_cast<const std::byte*>(values.data());
        result.element_bytes = sizeof(values[0]);
      },
      column.values);
  if (stream.kind == FeatureKind::kInt64) result.type = ElementType::kInt64;
  if (stream.kind == FeatureKind::kFloat) result.type = ElementType::kFloat32;
  if (stream.kind == FeatureKind::kBytes)
    result.element_offsets = column.element_offsets.data();
  return result;
}

std::uint64_t num_bytes(const ExampleColumn& column) {
  const auto bytes = [](const auto& values) { return values.capacity() * sizeof(values[0]); };
  return std::visit(bytes, column.values) + bytes(column.element_offsets) +
         bytes(column.sample_offsets);
}

std::shared_ptr<const Chunk> to_chunk(ExampleDecoder& decoder) {
  const auto columns =
      std::make_shared<std::vector<ExampleColumn>>(std::move(decoder.columns()));
  const auto chunk = std::make_shared<Chunk>();
  chunk->owner = columns;
  chunk->num_sequences = columns->front().sample_offsets.size() - 1;
  for (std::size_t i = 0; i < columns->size(); ++i) {
    chunk->columns.push_back(borrow((*columns)[i], decoder.streams()[i]));
    chunk->bytes += num_bytes((*columns)[i]);
  }
  return chunk;
}

void decode(const Record& record, bool verify_checksums, ExampleDecoder& decoder) {
  if (verify_checksums && !record.is_whole)
    throw DataError("the checksum of the record's data is wrong");
  decoder.decode(record.data);
}

}  // namespace

RecordDeserializer::RecordDeserializer(std::vector<ExampleStream> streams,
                                       std::vector<RecordFile> files,
                                       std::vector<RecordChunk> chunks, bool verify_checksums)
    : streams_(std::move(streams)),
      files_(std::move(files)),
      chunks_(std::move(chunks)),
      verify_checksums_(verify_checksums) {
  const ExampleDecoder checks(streams_);
  const auto lost = [this](const RecordChunk& chunk) { return chunk.file >= files_.size(); };
  if (std::ranges::any_of(chunks_, lost))
    throw std::invalid_argument("a chunk's file must be below " +
                                std::to_string(files_.size()));
}

std::shared_ptr<const Chunk> RecordDeserializer::load(std::uint64_t chunk_number) {
  Ledger ledger(0);
  std::shared_ptr<const Chunk> chunk = load(chunk_number, ledger);
  ledger.check();
  return chunk;
}

std::shared_ptr<const Chunk> RecordDeserializer::load(std::uint64_t chunk_number,
                                                      Ledger& ledger) const {
  const RecordChunk& chunk = chunks_.at(chunk_number);
  const RecordFile& source = files_[chunk.file];
  const File file(source.path, source.tag);
  Buffer<std::byte> bytes(chunk.bytes + kExamplePadding);
  const auto records = std::span(bytes).first(chunk.bytes);
  file.read(chunk.offset, records);
  std::ranges::fill(std::span(bytes).last(kExamplePadding), std::byte{0});

  ExampleDecoder decoder(streams_);
  std::span<const std::byte> rest = records;
  auto skipped = chunk.skipped.begin();
  std::uint64_t record = chunk.first_record;
  for (; !rest.empty() && !ledger.is_exhausted(); ++record) {
    // The first records tell how much room all will take: growing step by step costs more than
    // decoding.
    const std::uint64_t consumed = chunk.bytes - rest.size();
    if (record == chunk.first_record + kSampledRecords)
      decoder.reserve(1.1 * static_cast<double>(chunk.bytes) / static_cast<double>(consumed));
    const Place place{.file = source.path,
                      .offset = chunk.offset + (chunk.bytes - rest.size()),
                      .chunk = chunk_number,
                      .sequence = record};
    try {
      const Record found = take_record(rest);
      if (skipped != chunk.skipped.end() && *skipped == record) {
        ++skipped;
      } else {
        try {
          decode(found, verify_checksums_, decoder);
        } catch (const DataError& error) {
          ledger.add({.reason = error.reason(), .place = error.within(place).place()});
        }
      }
    } catch (const DataError& error) {
      throw error.within(place);
    }
  }
  if (rest.empty() && record != chunk.first_record + chunk.num_records)
    throw StaleError(
        "the index says " + std::to_string(chunk.num_records) + " records, the file has " +
            std::to_string(record - chunk.first_record) + "; build the index again",
        {.file = source.path, .offset = chunk.offset, .chunk = chunk_number});
  return to_chunk(decoder);
}

}  // namespace sweephand
