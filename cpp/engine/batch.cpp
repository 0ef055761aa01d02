#include "engine/batch.hpp"

#include <algorithm>
#include <memory>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

struct Range {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t size() const noexcept { return end - begin; }
};

Buffer part_of(const Buffer& whole, const Range& entries, std::uint64_t entry_bytes) {
  return whole.part(entries.begin * entry_bytes, entries.size() * entry_bytes);
}

// The elements between two offsets.
Range between(const Buffer& offsets, const Range& entries) {
  const auto* at = offsets.as<std::int64_t>();
  return {static_cast<std::uint64_t>(at[entries.begin]),
          static_cast<std::uint64_t>(at[entries.end])};
}

// Offsets of a range of entries, from 0.
Buffer offsets_of(const Buffer& whole, const Range& entries) {
  const auto* from = whole.as<std::int64_t>() + entries.begin;
  const auto offsets = std::make_shared<std::vector<std::int64_t>>(entries.size() + 1);
  std::transform(from, from + offsets->size(), offsets->begin(),
                 [first = *from](std::int64_t offset) { return offset - first; });
  return {reinterpret_cast<std::byte*>(offsets->data()), offsets->size() * sizeof(std::int64_t),
          offsets};
}

std::uint64_t longest_of(const Buffer& offsets, std::uint64_t num_sequences) {
  const auto* at = offsets.as<std::int64_t>();
  std::int64_t longest = 0;
  for (std::uint64_t j = 0; j < num_sequences; ++j)
    longest = std::max(longest, at[j + 1] - at[j]);
  return static_cast<std::uint64_t>(longest);
}

// The layout of a padded stream of the part's sequences alone: as wide as the longest of them,
// or as its bucket.
std::uint64_t width_of(const Batch& whole, const StreamBatch& stream, std::uint64_t longest) {
  if (whole.options.form == Form::kRows) return stream.width;
  return std::max(whole.options.rounded_up(longest),
                  std::min<std::uint64_t>(stream.width, whole.row_length));
}

void cut_grid(const Batch& whole, const Range& rows, StreamBatch& stream) {
  const std::uint64_t width = width_of(whole, stream, stream.longest);
  const std::uint64_t first =
      rows.begin * stream.stride + (whole.options.pad_left ? stream.width - width : 0);
  stream.rows = rows.size();
  stream.width = width;
  const Range cells{
      first, rows.size() == 0 ? first : first + (rows.size() - 1) * stream.stride + width};
  stream.mask = part_of(stream.mask, cells, 1);
  if (!stream.element_offsets)
    stream.values = part_of(stream.values, cells, stream.sample_bytes);
}

StreamBatch cut(const Batch& whole, StreamBatch stream, const Range& sequences,
                const Range& rows) {
  Range samples = sequences;
  stream.longest = std::min<std::uint64_t>(1, sequences.size());
  if (stream.sample_offsets) {
    samples = between(stream.sample_offsets, sequences);
    stream.sample_offsets = offsets_of(stream.sample_offsets, sequences);
    stream.longest = longest_of(stream.sample_offsets, sequences.size());
  }
  stream.num_samples = samples.size();
  stream.beyond = part_of(stream.beyond, sequences, stream.sample_bytes);
  if (stream.element_offsets) {
    const Range elements = between(stream.element_offsets, samples);
    stream.element_offsets = offsets_of(stream.element_offsets, samples);
    stream.num_elements = elements.size();
    stream.values = part_of(stream.values, elements, stream.sample_bytes);
    stream.indices = part_of(stream.indices, elements, sizeof(std::int32_t));
  } else if (!stream.mask) {
    stream.values = part_of(stream.values, samples, stream.sample_bytes);
  }
  if (stream.mask) cut_grid(whole, rows, stream);
  return stream;
}

Range sequences_of(const Batch& whole, const Range& rows) {
  if (whole.options.form != Form::kRows) return rows;
  const auto first_in = [&](std::uint64_t row) {
    const auto found = std::ranges::lower_bound(whole.cells, row, {}, &Cell::row);
    return static_cast<std::uint64_t>(found - whole.cells.begin());
  };
  return {first_in(rows.begin), first_in(rows.end)};
}

void cut_plan(const Plan& whole, const Range& sequences, const Range& rows, Plan& part) {
  const auto copy = [&](const auto& from, auto& to) {
    if (from.empty()) return;
    const auto begin = from.begin();
    to.assign(begin + static_cast<std::ptrdiff_t>(sequences.begin),
              begin + static_cast<std::ptrdiff_t>(sequences.end));
  };
  part.nominal_time = whole.nominal_time;
  part.next = whole.next;
  part.begin = whole.begin;
  part.request = whole.request;
  part.num_samples = whole.num_samples;
  part.num_sequences = whole.num_sequences;
  part.counted = whole.counted;
  part.sweeps_ended = whole.sweeps_ended;
  part.end_of_data = whole.end_of_data;
  part.row_length = whole.row_length;
  part.global_rows = whole.global_rows;
  if (whole.row_length != 0) part.num_rows = static_cast<std::uint32_t>(rows.size());
  copy(whole.share, part.share);
  copy(whole.cells, part.cells);
  for (Cell& cell : part.cells) cell.row -= static_cast<std::uint32_t>(rows.begin);
}

}  // namespace

void Batch::count() {
  share_samples = count_samples(*this);
  num_cells = share_samples;
  for (const StreamBatch& stream : streams) {
    if (stream.is_grid()) num_cells = std::max(num_cells, stream.rows * stream.width);
  }
}

Batch rows_of(const Batch& whole, std::uint64_t begin, std::uint64_t end) {
  const std::uint64_t num_rows =
      whole.options.form == Form::kRows ? whole.num_rows : whole.share.size();
  if (begin > end || end > num_rows) {
    throw std::out_of_range("a part must be some of the " + std::to_string(num_rows) +
                            " rows, got [" + std::to_string(begin) + ", " +
                            std::to_string(end) + ")");
  }
  const Range rows{begin, end};
  const Range sequences = sequences_of(whole, rows);
  Batch part;
  cut_plan(whole, sequences, rows, part);
  part.options = whole.options;
  const Range cells{begin * whole.row_length, end * whole.row_length};
  part.marks = {.mask = part_of(whole.marks.mask, cells, 1),
                .segment_ids = part_of(whole.marks.segment_ids, cells, sizeof(std::int32_t)),
                .position_ids = part_of(whole.marks.position_ids, cells, sizeof(std::int32_t))};
  for (const StreamBatch& stream : whole.streams)
    part.streams.push_back(cut(whole, stream, sequences, rows));
  part.count();
  return part;
}

Batch with_streams(const Batch& whole, std::span<const std::size_t> numbers) {
  Batch batch = whole;
  for (std::size_t i = 0; i < batch.streams.size(); ++i) {
    if (std::ranges::find(numbers, i) == numbers.end()) batch.streams[i] = {};
  }
  return batch;
}

}  // namespace sweephand
