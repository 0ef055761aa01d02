#include "engine/direct_writer.hpp"

#include "base/error.hpp"
#include "engine/copy.hpp"
#include "read/extents.hpp"
#include "run/physical_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace sweephand {
namespace {

// Of what is copied or looked up, that which is fetched meanwhile.
constexpr std::size_t kRowsAhead = 8;
constexpr std::size_t kOffsetsAhead = 32;
constexpr std::size_t kSequencesAhead = 8;
constexpr std::size_t kShortAhead = 32;  // sequences of a line or less

// Which sequence of a column each of a share is.
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

// Copies what lies in the memory of a column: again where its file was touched meanwhile.
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

// Where each sequence begins in the column, and in the minibatch; false if one is not there.
bool find_sequences(const Column& column, const Numbers& numbers,
                    std::span<std::uint64_t> begins, std::int64_t* offsets,
                    std::uint64_t& longest) {
  std::int64_t offset = 0;
  offsets[0] = 0;
  for (std::size_t j = 0; j < begins.size(); ++j) {
    if (j + kOffsetsAhead < begins.size())
      __builtin_prefetch(column.sample_offsets + numbers[j + kOffsetsAhead]);
    const std::uint64_t number = numbers[j];
    if (!column.holds(number)) return false;
    const std::int64_t begin = column.begin(number);
    const std::int64_t size = column.end(number) - begin;
    begins[j] = static_cast<std::uint64_t>(begin);
    offset += size;
    offsets[j + 1] = offset;
    longest = std::max(longest, static_cast<std::uint64_t>(size));
  }
  return true;
}

// Arguments are copies, which nothing that is written can change.
void copy_rows(ColumnCopier copier, std::span<const PlannedSequence> share, Numbers numbers,
               std::uint64_t elements, std::uint64_t row_bytes, std::byte* to) {
  const std::size_t ahead = row_bytes > kCacheLine ? kRowsAhead : kShortAhead;
  for (std::size_t j = 0; j < std::min(ahead, share.size()); ++j)
    copier.ask_for(numbers[j] * elements, elements);
  for (std::size_t j = 0; j < share.size(); ++j) {
    if (j + ahead < share.size()) copier.ask_for(numbers[j + ahead] * elements, elements);
    copier.exactly(copier.place(numbers[j] * elements), elements, to, share[j].sequence);
    to += row_bytes;
  }
}

}  // namespace

bool lies_as_delivered(const Column& column, const StreamSpec& stream) {
  return column.values != nullptr && !stream.variable && !stream.broadcast;
}

StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool) {
  const std::uint64_t row_bytes = stream.sample_bytes();
  if (row_bytes > physical_memory() && !share.empty())
    throw DataError("the sample has " + std::to_string(row_bytes) +
                        " bytes, which is more than the memory of this machine",
                    {.stream = stream.name, .sequence = share[0].sequence});
  StreamBatch batch{.values = pool.take(share.size() * row_bytes),
                    .sample_bytes = row_bytes,
                    .num_samples = share.size(),
                    .longest = share.empty() ? 0U : 1U};
  copy_unchanged(column, [&] {
    copy_rows({column, stream}, share, {share, joined}, stream.sample_elements, row_bytes,
              batch.values.data());
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
  if (!find_sequences(column, {share, joined}, begins, offsets, batch.longest))
    return std::nullopt;
  batch.num_samples = static_cast<std::uint64_t>(offsets[count]);
  if (stream.single && (batch.longest > 1 || batch.num_samples != count)) return std::nullopt;
  // Which the way by runs says of the sequence.
  if (batch.longest > physical_memory() / std::max<std::uint64_t>(1, sample_bytes))
    return std::nullopt;
  batch.values = take_with_room(pool, batch.num_samples * sample_bytes);
  const ColumnCopier copier(column, stream);
  const std::uint64_t sample_elements = stream.sample_elements;
  const auto elements_of = [&](std::size_t j) {
    return static_cast<std::uint64_t>(offsets[j + 1] - offsets[j]) * sample_elements;
  };
  const std::size_t ahead =
      batch.values.size() > count * kCacheLine ? kSequencesAhead : kShortAhead;
  copy_unchanged(column, [&] {
    std::byte* to = batch.values.data();
    for (std::size_t j = 0; j < std::min(ahead, count); ++j)
      copier.ask_for(begins[j] * sample_elements, elements_of(j));
    for (std::size_t j = 0; j < count; ++j) {
      if (const std::size_t later = j + ahead; later < count)
        copier.ask_for(begins[later] * sample_elements, elements_of(later));
      const std::uint64_t elements = elements_of(j);
      copier(begins[j] * sample_elements, elements, to, share[j].sequence);
      to += elements * stream.element_bytes;
    }
  });
  return batch;
}

}  // namespace sweephand
