#include "engine/direct_writer.hpp"

#include "base/error.hpp"
#include "read/extents.hpp"
#include "read/mapped_offsets.hpp"
#include "run/physical_memory.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// Distances from the sequence being copied or looked up to the one being prefetched.
constexpr std::size_t kRowsAhead = 8;
constexpr std::size_t kOffsetsAhead = 32;
constexpr std::size_t kSequencesAhead = 8;
constexpr std::size_t kShortAhead = 32;  // sequences of a line or less

// The sequence of a column for each sequence of a share.
class Numbers {
 public:
  Numbers(std::span<const PlannedSequence> share, std::span<const std::uint64_t> joined)
      : share_(share), joined_(joined) {}
  std::uint64_t operator[](std::size_t j) const {
    const std::uint64_t number = share_[j].sequence;
    return joined_.empty() ? number : joined_[number];
  }

 private:
  std::span<const PlannedSequence> share_;
  std::span<const std::uint64_t> joined_;
};

struct ElementRange {
  std::uint64_t first;
  std::uint64_t count;
};

// Copies from the memory of a column, again if its file was touched meanwhile.
template <class Copy>
void copy_unchanged(const Column& column, const Copy& copy_all) {
  if (column.extents == nullptr) return copy_all();
  read_untouched([&] {
    Extents::Reader reader(*column.extents);
    reader.read_in_memory();
    copy_all();
    reader.check_unchanged();
  });
}

// The column with its values in memory; of held extents, those of the sequences are loaded.
template <class ElementsOf>
Column brought(Column column, std::size_t count, const ElementsOf& elements_of) {
  if (column.values != nullptr) return column;
  column.values = column.extents->held();
  Extents::Reader reader(*column.extents);
  if (!reader.brings_nothing()) {
    for (std::size_t j = 0; j < count; ++j) {
      const ElementRange elements = elements_of(j);
      reader.bring(elements.first * column.element_bytes,
                   elements.count * column.element_bytes);
    }
    // Other threads may load the bytes after it: copies of short runs must not read them.
    column.num_samples = 0;
    column.num_elements = 0;
  }
  column.extents = nullptr;  // which are not used any more
  return column;
}

// Finds the begin of each sequence in the column and in the minibatch; false if one is missing.
bool find_sequences(const Column& column, const Numbers& numbers,
                    std::span<std::uint64_t> begins, std::int64_t* offsets,
                    std::uint64_t& longest) {
  std::int64_t offset = 0;
  offsets[0] = 0;
  longest = 0;
  for (std::size_t j = 0; j < begins.size(); ++j) {
    if (j + kOffsetsAhead < begins.size())
      __builtin_prefetch(column.sample_offsets + numbers[j + kOffsetsAhead]);
    const SampleRange samples = column.find(numbers[j]);
    if (!samples.is_there()) return false;
    begins[j] = static_cast<std::uint64_t>(samples.begin);
    offset += samples.end - samples.begin;
    offsets[j + 1] = offset;
    longest = std::max(longest, samples.count());
  }
  return true;
}

// Copies the elements of the sequences one after another. Arguments are passed by value, as
// writes could otherwise alias them. REQUIRES: `to` is of take_with_room
template <class ElementsOf>
void copy_all(ColumnCopier copier, std::span<const PlannedSequence> share,
              ElementsOf elements_of, const StreamSpec& stream, std::size_t ahead,
              std::byte* to) {
  const std::uint64_t element_bytes = stream.element_bytes;
  const auto ask_for = [&](std::size_t j) __attribute__((always_inline)) {
    const ElementRange later = elements_of(j);
    copier.ask_for(later.first, later.count);
  };
  for (std::size_t j = 0; j < std::min(ahead, share.size()); ++j) ask_for(j);
  for (std::size_t j = 0; j < share.size(); ++j) {
    if (j + ahead < share.size()) ask_for(j + ahead);
    const auto [first, count] = elements_of(j);
    copier(first, count, to, share[j].sequence);
    to += count * element_bytes;
  }
}

// True if sequences have as many samples as the stream may have, and fit memory; the way by
// runs finds the sequence that does not.
bool is_deliverable(const StreamBatch& batch, std::size_t count, const StreamSpec& stream) {
  if (stream.single && (batch.longest > 1 || batch.num_samples != count)) return false;
  return !exceeds_memory(batch.longest, stream.sample_bytes());
}

}  // namespace

bool lies_as_delivered(const Column& column, const StreamSpec& stream) {
  const bool is_held = column.extents != nullptr && column.extents->held() != nullptr;
  return (column.values != nullptr || is_held) && !stream.variable && !stream.broadcast;
}

StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool) {
  const std::uint64_t row_bytes = stream.sample_bytes();
  if (exceeds_memory(1, row_bytes) && !share.empty())
    throw DataError("the sample has " + std::to_string(row_bytes) +
                        " bytes, which is more than the memory there is",
                    {.stream = stream.name, .sequence = share[0].sequence});
  StreamBatch batch{.values = take_with_room(pool, share.size() * row_bytes),
                    .sample_bytes = row_bytes,
                    .num_samples = share.size(),
                    .longest = share.empty() ? 0U : 1U};
  const auto elements_of = [numbers = Numbers(share, joined),
                            count = stream.sample_elements](std::size_t j) {
    return ElementRange{numbers[j] * count, count};
  };
  const Column source = brought(column, share.size(), elements_of);
  copy_unchanged(source, [&] {
    copy_all({source, stream}, share, elements_of, stream,
             row_bytes > kCacheLine ? kRowsAhead : kShortAhead, batch.values.data());
  });
  return batch;
}

std::optional<StreamBatch> write_sequences(const Column& column,
                                           std::span<const PlannedSequence> share,
                                           std::span<const std::uint64_t> joined,
                                           const StreamSpec& stream, BufferPool& pool) {
  const std::uint64_t sample_bytes = stream.sample_bytes();
  const std::size_t count = share.size();
  StreamBatch batch{.sample_bytes = sample_bytes};
  batch.sample_offsets = pool.take((count + 1) * sizeof(std::int64_t));
  auto* const offsets = batch.sample_offsets.as<std::int64_t>();
  std::vector<std::uint64_t> begins(count);
  bool found = false;
  read_offsets(column, [&] {
    found = find_sequences(column, {share, joined}, begins, offsets, batch.longest);
  });
  if (!found) return std::nullopt;
  batch.num_samples = static_cast<std::uint64_t>(offsets[count]);
  if (!is_deliverable(batch, count, stream)) return std::nullopt;
  batch.values = take_with_room(pool, batch.num_samples * sample_bytes);
  const auto elements_of = [begins = begins.data(), offsets,
                            of_sample = stream.sample_elements](std::size_t j) {
    const auto samples = static_cast<std::uint64_t>(offsets[j + 1] - offsets[j]);
    return ElementRange{begins[j] * of_sample, samples * of_sample};
  };
  const Column source = brought(column, count, elements_of);
  copy_unchanged(source, [&] {
    copy_all({source, stream}, share, elements_of, stream,
             batch.values.size() > count * kCacheLine ? kSequencesAhead : kShortAhead,
             batch.values.data());
  });
  return batch;
}

PartedColumn::PartedColumn(std::vector<Column> columns, std::vector<std::uint64_t> starts,
                           const StreamSpec& stream)
    : stream_(&stream),
      columns_(std::move(columns)),
      starts_(std::move(starts)),
      guess_(columns_.size(), starts_.back()) {
  for (const Column& column : columns_) copiers_.emplace_back(column, stream);
}

// The part of each sequence, whose offsets are asked for.
std::vector<PartedColumn::Found> PartedColumn::find_parts(
    std::span<const PlannedSequence> share) const {
  std::vector<Found> found(share.size());
  for (std::size_t j = 0; j < share.size(); ++j) {
    const std::size_t part = guess_.find(starts_, share[j].sequence);
    found[j] = {.part = part, .first = share[j].sequence - starts_[part]};
    if (columns_[part].sample_offsets != nullptr)
      __builtin_prefetch(columns_[part].sample_offsets + found[j].first);
  }
  return found;
}

// As find_sequences.
bool PartedColumn::find_elements(std::span<Found> found, std::int64_t* offsets,
                                 std::uint64_t& longest) const {
  offsets[0] = 0;
  for (std::size_t j = 0; j < found.size(); ++j) {
    const SampleRange samples = columns_[found[j].part].find(found[j].first);
    if (!samples.is_there()) return false;
    found[j].first = static_cast<std::uint64_t>(samples.begin) * stream_->sample_elements;
    offsets[j + 1] = offsets[j] + (samples.end - samples.begin);
    longest = std::max(longest, samples.count());
  }
  return true;
}

std::optional<StreamBatch> PartedColumn::write(std::span<const PlannedSequence> share,
                                               BufferPool& pool) const {
  const std::uint64_t sample_bytes = stream_->sample_bytes();
  const std::size_t count = share.size();
  StreamBatch batch{.sample_bytes = sample_bytes};
  batch.sample_offsets = pool.take((count + 1) * sizeof(std::int64_t));
  auto* const offsets = batch.sample_offsets.as<std::int64_t>();
  std::vector<Found> found = find_parts(share);
  if (!find_elements(found, offsets, batch.longest)) return std::nullopt;
  batch.num_samples = static_cast<std::uint64_t>(offsets[count]);
  if (!is_deliverable(batch, count, *stream_)) return std::nullopt;
  batch.values = take_with_room(pool, batch.num_samples * sample_bytes);
  const auto elements = [&](std::size_t j) __attribute__((always_inline)) {
    return static_cast<std::uint64_t>(offsets[j + 1] - offsets[j]) * stream_->sample_elements;
  };
  const auto ask_for = [&](std::size_t j) __attribute__((always_inline)) {
    copiers_[found[j].part].ask_for(found[j].first, elements(j));
  };
  std::byte* to = batch.values.data();
  for (std::size_t j = 0; j < std::min(kSequencesAhead, count); ++j) ask_for(j);
  for (std::size_t j = 0; j < count; ++j) {
    if (j + kSequencesAhead < count) ask_for(j + kSequencesAhead);
    copiers_[found[j].part](found[j].first, elements(j), to, share[j].sequence);
    to += elements(j) * stream_->element_bytes;
  }
  return batch;
}

}  // namespace sweephand
