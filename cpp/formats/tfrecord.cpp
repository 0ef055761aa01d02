#include "formats/tfrecord.hpp"

#include "formats/record_frames.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>
#include <variant>

namespace sweephand {
namespace {

constexpr std::uint64_t kSampledRecords = 64;

template <class T>
constexpr ElementType kTypeOf = ElementType::kOpaque;
template <>
constexpr ElementType kTypeOf<float> = ElementType::kFloat32;
template <>
constexpr ElementType kTypeOf<std::int64_t> = ElementType::kInt64;
template <>
constexpr ElementType kTypeOf<std::int32_t> = ElementType::kInt32;
template <>
constexpr ElementType kTypeOf<std::uint16_t> = ElementType::kUInt16;

Column borrow(const ExampleColumn& column, const ExampleStream& stream) {
  Column result{.sample_offsets = column.sample_offsets.data(),
                .sample_elements = stream.sample_elements};
  std::visit(
      [&result]<class T>(const ColumnVector<T>& values) {
        result.values = reinterpret_cast<const std::byte*>(values.data());
        result.element_bytes = sizeof(T);
        result.type = kTypeOf<T>;
      },
      column.values);
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

// Takes the records of a run in order.
class RunReader {
 public:
  explicit RunReader(const RecordRun& run) : bytes_(run.bytes), offsets_(run.offsets) {
    if (!offsets_) return;
    const auto size = static_cast<std::int64_t>(bytes_.size());
    if (offsets_->empty() || offsets_->front() != 0 || offsets_->back() > size ||
        !std::ranges::is_sorted(*offsets_))
      throw std::invalid_argument("the offsets must rise from 0 to the end of the records");
  }

  bool is_done() const {
    return offsets_ ? number_ + 1 == offsets_->size() : consumed_ == bytes_.size();
  }
  std::uint64_t size() const { return bytes_.size(); }
  std::uint64_t consumed() const { return consumed_; }  // bytes before the next record
  void prepare() {}

  Record take() {
    std::span<const std::byte> rest = bytes_.subspan(consumed_);
    Record record;
    if (offsets_) {
      const auto end = static_cast<std::uint64_t>((*offsets_)[number_ + 1]);
      record = {.data = rest.first(end - consumed_), .is_whole = true};
      consumed_ = end;
    } else {
      record = take_record(rest);
      consumed_ = bytes_.size() - rest.size();
    }
    ++number_;
    return record;
  }

 private:
  std::span<const std::byte> bytes_;
  std::optional<std::span<const std::int64_t>> offsets_;
  std::uint64_t number_ = 0;
  std::uint64_t consumed_ = 0;
};

void decode(const Record& record, bool verify_checksums, ExampleDecoder& decoder) {
  if (verify_checksums && !record.is_whole)
    throw DataError("the checksum of the record's data is wrong");
  decoder.decode(record.data);
}

// Decodes all records of `records`; `place` is that of the first.
template <class Records>
std::shared_ptr<const Chunk> decode_all(const std::vector<ExampleStream>& streams,
                                        Records& records, const Place& first,
                                        bool verify_checksums, Ledger& ledger) {
  ExampleDecoder decoder(streams);
  for (std::uint64_t number = 0; !records.is_done(); ++number) {
    // The first records give an estimate of the memory for all: growing step by step costs more
    // than decoding.
    const std::uint64_t consumed = records.consumed();
    if (number == kSampledRecords && consumed > 0)
      decoder.reserve(1.1 * static_cast<double>(records.size()) /
                      static_cast<double>(consumed));
    const auto add_place = [&](const DataError& error) {
      Place place{.file = first.file, .sequence = first.sequence.value_or(0) + number};
      if (first.offset) place.offset = *first.offset + consumed;
      return error.within(place);
    };
    records.prepare();
    try {
      const Record found = records.take();
      try {
        decode(found, verify_checksums, decoder);
      } catch (const DataError& error) {
        decoder.append_empty();
        ledger.add({.reason = error.reason(), .place = add_place(error).place()});
      }
    } catch (const DataError& error) {
      throw add_place(error);
    }
  }
  return to_chunk(decoder);
}

}  // namespace

std::shared_ptr<const Chunk> decode_records(const std::vector<ExampleStream>& streams,
                                            const RecordRun& run, bool verify_checksums,
                                            Ledger& ledger) {
  RunReader records(run);
  Place place = run.place;
  place.offset = run.offsets ? std::nullopt : std::optional(place.offset.value_or(0));
  return decode_all(streams, records, place, verify_checksums, ledger);
}

std::shared_ptr<const Chunk> decode_records(const std::vector<ExampleStream>& streams,
                                            const ByteSource& file, std::uint64_t offset,
                                            std::uint64_t size, std::uint64_t first,
                                            bool verify_checksums, Ledger& ledger) {
  RecordBlocks records(file, offset, size, kExamplePadding);
  return decode_all(streams, records,
                    {.file = file.path(), .offset = offset, .sequence = first},
                    verify_checksums, ledger);
}

std::vector<FoundKind> find_kinds(const std::vector<std::string>& keys, const RecordRun& run,
                                  bool verify_checksums) {
  std::vector<ExampleStream> streams;
  streams.reserve(keys.size());
  for (const std::string& key : keys) streams.push_back({.key = key});
  ExampleDecoder decoder(std::move(streams));
  std::vector<FoundKind> kinds(keys.size());
  const auto is_open = [](const FoundKind& found) { return found.kind == FeatureKind::kNone; };
  RunReader records(run);
  while (!records.is_done() && std::ranges::any_of(kinds, is_open)) {
    const Record record = records.take();
    if (verify_checksums && !record.is_whole) continue;
    try {
      const std::vector<FoundKind> found = decoder.kinds_of(record.data);
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (is_open(kinds[i])) kinds[i] = found[i];
      }
    } catch (const DataError&) {
      continue;  // reported when it is decoded
    }
  }
  return kinds;
}

}  // namespace sweephand
