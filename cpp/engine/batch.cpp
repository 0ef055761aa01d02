#include "engine/batch.hpp"

#include "base/cpu.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace sweephand {
namespace {

// Writes all marks from the first cell to the last, including segments on request.
[[gnu::always_inline]] inline void write(const Plan& plan, const RowMarks& marks) {
  auto* const mask = marks.mask.as<std::uint8_t>();
  auto* const segments = marks.segment_ids.as<std::int32_t>();
  auto* const positions = marks.position_ids.as<std::int32_t>();
  std::uint64_t done = 0;
  const auto pad_to = [&](std::uint64_t cell) {
    std::memset(mask + done, 0, cell - done);
    if (segments != nullptr) {
      std::memset(segments + done, 0, (cell - done) * sizeof *segments);
      std::memset(positions + done, 0, (cell - done) * sizeof *positions);
    }
    done = cell;
  };
  std::int32_t segment = 0;
  for (std::size_t j = 0; j < plan.cells.size(); ++j) {
    const Cell& cell = plan.cells[j];
    const std::uint64_t begin = std::uint64_t{cell.row} * plan.row_length + cell.column;
    if (done != begin) pad_to(begin);
    const std::uint32_t size = plan.share[j].size;
    std::memset(mask + begin, 1, size);
    if (cell.first == 0) mask[begin] = 2;
    segment = cell.column == 0 ? 1 : segment + 1;
    if (segments != nullptr) {
      for (std::uint32_t i = 0; i < size; ++i) segments[begin + i] = segment;
      for (std::uint32_t i = 0; i < size; ++i)
        positions[begin + i] = static_cast<std::int32_t>(i);
    }
    done = begin + size;
  }
  pad_to(std::uint64_t{plan.num_rows} * plan.row_length);
}

// The same with wider instructions.
[[gnu::target("avx2")]] void write_avx2(const Plan& plan, const RowMarks& marks) {
  write(plan, marks);
}

[[gnu::target("avx512f,avx512bw")]] void write_avx512(const Plan& plan, const RowMarks& marks) {
  write(plan, marks);
}

void write_marks(const Plan& plan, const RowMarks& marks) {
  if (cpu().avx512) return write_avx512(plan, marks);
  if (cpu().avx2) return write_avx2(plan, marks);
  write(plan, marks);
}

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

RowMarks mark_rows(const Plan& plan, bool segments, BufferPool& pool) {
  const std::uint64_t cells = std::uint64_t{plan.num_rows} * plan.row_length;
  RowMarks marks{.mask = pool.take(cells)};
  if (segments) {
    marks.segment_ids = pool.take(cells * sizeof(std::int32_t));
    marks.position_ids = pool.take(cells * sizeof(std::int32_t));
  }
  write_marks(plan, marks);
  return marks;
}

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
