#include "base/error.hpp"
#include "engine/copy.hpp"
#include "engine/runs.hpp"
#include "read/extents.hpp"
#include "run/physical_memory.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <new>
#include <optional>
#include <string>
#include <vector>

namespace sweephand {
namespace {

// Distances from the run being copied to the prefetched run, and to that whose place is read.
constexpr std::size_t kRunsAhead = 8;
constexpr std::size_t kPlacesAhead = 16;
constexpr std::size_t kShortRowsAhead = 32;  // of a line or less

// Copies elements of one column after another as the elements of the stream. Buffers have room
// for kShort extra bytes: a short run is copied with the bytes after it, which the next run
// overwrites.
class ElementCopier {
 public:
  ElementCopier(const StreamSpec& stream) : stream_(stream) {}
  ElementCopier(const ElementCopier&) = delete;
  ElementCopier& operator=(const ElementCopier&) = delete;
  ~ElementCopier() = default;

  // To be called in the order of `to`.
  void operator()(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    if (run.column != column_) enter(*run.column);
    if (reads_) {
      read(run, first, count, to);
    } else {
      (*copier_)(first, count, to, run.sequence);
    }
  }

  // The same where the following bytes have been written already.
  void exactly(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    if (run.column != column_) enter(*run.column);
    if (reads_) {
      read(run, first, count, to);
    } else {
      copier_->exactly(copier_->place(first), count, to, run.sequence);
    }
  }

  // Prefetches elements that are copied soon.
  [[gnu::always_inline]] void prefetch_elements(const Column& column, std::uint64_t first,
                                                std::uint64_t count) const {
    const std::uint64_t offset = first * column.element_bytes;
    const std::byte* from = nullptr;
    if (column.values != nullptr) {
      from = column.values + offset;
    } else if (count != 0 && column.extents == extents_) {
      from = reader_->place(offset);
    }
    if (from != nullptr) prefetch(from, count * column.element_bytes);
  }

  // Prefetches the offsets of elements that are copied later.
  void prefetch_place(const Column& column, std::uint64_t first, std::uint64_t count) const {
    if (column.values == nullptr && count != 0 && column.extents == extents_)
      reader_->prefetch_place(first * column.element_bytes);
  }

  // To be called in the end. Throws if a file changed while it was read; TouchedError if
  // everything is to be copied again.
  void check_unchanged() {
    for (auto& [extents, reader] : readers_) reader.check_unchanged();
  }

 private:
  void enter(const Column& column) {
    column_ = &column;
    copier_.emplace(column, stream_);
    reads_ = column.values == nullptr && column.extents != nullptr;
    if (column.extents == extents_) return;
    extents_ = column.extents;
    if (extents_ == nullptr) return;
    reader_ = &readers_.try_emplace(extents_, *extents_).first->second;
    if (column.values != nullptr) reader_->read_in_memory();
  }

  void read(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    const std::uint64_t bytes = copier_->bytes(count);
    const bool direct = !copier_->converts();
    if (!direct) buffer_.resize(bytes);
    reader_->read(copier_->bytes(first), {direct ? to : buffer_.data(), bytes});
    if (!direct) copier_->exactly(buffer_.data(), count, to, run.sequence);
  }

  const StreamSpec& stream_;
  std::vector<std::byte> buffer_;
  std::map<const Extents*, Extents::Reader> readers_;
  const Column* column_ = nullptr;  // the last source of a copy
  std::optional<ColumnCopier> copier_;
  bool reads_ = false;                // it lies in a file
  const Extents* extents_ = nullptr;  // those that were read last
  Extents::Reader* reader_ = nullptr;
};

// Repeats one element, whatever its bytes.
void fill(std::byte* to, std::uint64_t count, std::span<const std::byte> element) {
  if (std::all_of(element.begin(), element.end(),
                  [&](std::byte byte) { return byte == element[0]; })) {
    std::memset(to, static_cast<int>(element[0]), count * element.size());
    return;
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    std::memcpy(to + i * element.size(), element.data(), element.size());
  }
}

// The target of each run: the cell of a grid, or the place after the previous run.
class Grid {
 public:
  Grid(std::span<const Run> runs, std::uint64_t longest, std::uint64_t least_width,
       const Plan& plan, const AssembleOptions& options)
      : runs_(runs), plan_(plan), options_(options) {
    if (options.form == Form::kRows) {
      rows = plan.num_rows;
      width = plan.row_length;
    } else {
      rows = runs.empty() ? plan.num_rows : runs.size();  // all gaps
      width = std::max(options.rounded_up(longest), least_width);
    }
  }

  std::uint64_t cell(std::size_t j) const {
    if (options_.form == Form::kRows) {
      return plan_.cells[j].row * width + plan_.cells[j].column;
    }
    return j * width + (options_.pad_left ? width - runs_[j].length : 0);
  }

  bool has_own_mask() const noexcept { return options_.form == Form::kPadded; }

  std::uint64_t rows = 0;
  std::uint64_t width = 0;

 private:
  std::span<const Run> runs_;
  const Plan& plan_;
  const AssembleOptions& options_;
};

// Copies one run: as it is, or its one sample again and again.
void write_run(ElementCopier& copy_elements, const Run& run, std::uint64_t elements,
               std::uint64_t sample_bytes, std::byte* to) {
  copy_elements(run, run.begin * elements, run.samples * elements, to);
  for (std::uint64_t i = run.samples; i < run.length; ++i) {
    std::memcpy(to + i * sample_bytes, to, sample_bytes);
  }
}

// Prefetches runs after run j.
[[gnu::always_inline]] inline void prefetch_runs(const ElementCopier& copier,
                                                 std::span<const Run> runs, std::size_t j,
                                                 std::uint64_t elements) {
  if (j + kPlacesAhead < runs.size()) {
    const Run& run = runs[j + kPlacesAhead];
    copier.prefetch_place(*run.column, run.begin * elements, run.samples * elements);
  }
  if (j + kRunsAhead < runs.size()) {
    const Run& run = runs[j + kRunsAhead];
    copier.prefetch_elements(*run.column, run.begin * elements, run.samples * elements);
  }
}

void write_ragged(std::span<const Run> runs, const StreamSpec& stream, BufferPool& pool,
                  StreamBatch& batch) {
  const std::uint64_t sample_bytes = stream.sample_bytes();
  batch.values = take_with_room(pool, batch.num_samples * sample_bytes);
  ElementCopier copy_elements(stream);
  std::byte* to = batch.values.data();
  for (std::size_t j = 0; j < runs.size(); ++j) {
    prefetch_runs(copy_elements, runs, j, stream.sample_elements);
    write_run(copy_elements, runs[j], stream.sample_elements, sample_bytes, to);
    to += runs[j].length * sample_bytes;
  }
  copy_elements.check_unchanged();
}

// With a mask if the grid is the stream's own: rows share a mask for all streams.
void write_grid(std::span<const Run> runs, const StreamSpec& stream, const Grid& grid,
                BufferPool& pool, StreamBatch& batch) {
  const std::uint64_t sample_bytes = stream.sample_bytes();
  const std::uint64_t cells = grid.rows * grid.width;
  batch.rows = grid.rows;
  batch.width = grid.width;
  batch.stride = grid.width;
  batch.values = take_with_room(pool, cells * sample_bytes);
  if (grid.has_own_mask()) batch.mask = pool.take(cells);
  ElementCopier copy_elements(stream);
  std::byte* values = batch.values.data();
  auto* const mask = batch.mask.as<std::uint8_t>();
  std::uint64_t filled = 0;  // cells before it are done: runs come in the order of their cells
  const auto pad_to = [&](std::uint64_t cell) {
    fill(values + filled * sample_bytes, (cell - filled) * stream.sample_elements,
         std::as_bytes(std::span(stream.pad_value)));
    if (mask != nullptr) std::memset(mask + filled, 0, cell - filled);
    filled = cell;
  };
  for (std::size_t j = 0; j < runs.size(); ++j) {
    prefetch_runs(copy_elements, runs, j, stream.sample_elements);
    pad_to(grid.cell(j));
    write_run(copy_elements, runs[j], stream.sample_elements, sample_bytes,
              values + filled * sample_bytes);
    if (mask != nullptr && runs[j].length != 0) {
      std::memset(mask + filled, 1, runs[j].length);
      mask[filled] = 2;
    }
    filled += runs[j].length;
  }
  pad_to(cells);
  copy_elements.check_unchanged();
}

// The sample after every piece that is continued, for labels.
void write_beyond(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                  BufferPool& pool, StreamBatch& batch) {
  if (stream.broadcast) return;
  const std::uint64_t sample_bytes = stream.sample_bytes();
  ElementCopier copy_elements(stream);
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (!plan.goes_on(j)) continue;
    if (!batch.beyond) {
      batch.beyond = pool.take(runs.size() * sample_bytes);
      std::memset(batch.beyond.data(), 0, runs.size() * sample_bytes);
    }
    copy_elements.exactly(runs[j], (runs[j].begin + runs[j].samples) * stream.sample_elements,
                          stream.sample_elements, batch.beyond.data() + j * sample_bytes);
  }
  copy_elements.check_unchanged();
}

// The elements of a run.
struct Elements {
  explicit Elements(const Run& run) {
    const std::int64_t* const offsets = run.column->element_offsets + run.begin;
    first = static_cast<std::uint64_t>(offsets[0]);
    count = static_cast<std::uint64_t>(offsets[run.samples]) - first;
  }

  std::uint64_t first = 0;
  std::uint64_t count = 0;
};

// Prefetches the elements of runs after run j, and their indices.
[[gnu::always_inline]] inline void prefetch_variable(const ElementCopier& copier,
                                                     std::span<const Run> runs, std::size_t j) {
  if (j + kPlacesAhead < runs.size()) {
    const Elements later(runs[j + kPlacesAhead]);
    copier.prefetch_place(*runs[j + kPlacesAhead].column, later.first, later.count);
  }
  if (j + kRunsAhead < runs.size()) {
    const Column& column = *runs[j + kRunsAhead].column;
    const Elements soon(runs[j + kRunsAhead]);
    copier.prefetch_elements(column, soon.first, soon.count);
    if (column.indices != nullptr)
      prefetch(reinterpret_cast<const std::byte*>(column.indices + soon.first),
               soon.count * sizeof(std::int32_t));
  }
}

// Samples of a variable number of elements: the elements, the offsets of samples, and indices.
void write_variable(std::span<const Run> runs, const StreamSpec& stream, BufferPool& pool,
                    StreamBatch& batch) {
  for (const Run& run : runs) batch.num_elements += Elements(run).count;
  batch.values = take_with_room(pool, batch.num_elements * stream.element_bytes);
  batch.element_offsets = pool.take((batch.num_samples + 1) * sizeof(std::int64_t));
  const bool sparse = !runs.empty() && runs[0].column->indices != nullptr;
  if (sparse) batch.indices = pool.take(batch.num_elements * sizeof(std::int32_t));
  ElementCopier copy_elements(stream);
  auto* element_offset = batch.element_offsets.as<std::int64_t>();
  *element_offset = 0;
  for (std::size_t j = 0; j < runs.size(); ++j) {
    prefetch_variable(copy_elements, runs, j);
    const Run& run = runs[j];
    const std::int64_t* offsets = run.column->element_offsets + run.begin;
    const auto [first, count] = Elements(run);
    const auto done = static_cast<std::uint64_t>(*element_offset);
    copy_elements(run, first, count, batch.values.data() + done * stream.element_bytes);
    if (sparse) {
      std::memcpy(batch.indices.as<std::int32_t>() + done, run.column->indices + first,
                  count * sizeof(std::int32_t));
    }
    bool ascending = true;
    for (std::uint64_t i = 1; i <= run.samples; ++i) {
      ascending = ascending && offsets[i - 1] <= offsets[i];
      element_offset[i] = element_offset[0] + (offsets[i] - offsets[0]);
    }
    if (!ascending)
      throw DataError("the elements of its samples overlap",
                      {.stream = stream.name, .sequence = run.sequence});
    element_offset += run.samples;
  }
  copy_elements.check_unchanged();
}

// The first elements of every sample.
void write_heads(std::span<const Run> runs, const StreamSpec& stream, BufferPool& pool,
                 StreamBatch& batch) {
  batch.element_offsets = pool.take((batch.num_samples + 1) * sizeof(std::int64_t));
  auto* end = batch.element_offsets.as<std::int64_t>();
  *end = 0;
  for (const Run& run : runs) {
    const std::int64_t* offsets = run.column->element_offsets + run.begin;
    for (std::uint64_t i = 0; i < run.samples; ++i, ++end) {
      const std::int64_t size = offsets[i + 1] - offsets[i];
      if (size < 0)
        throw DataError("the elements of its samples overlap",
                        {.stream = stream.name, .sequence = run.sequence});
      end[1] = end[0] + std::min(size, static_cast<std::int64_t>(stream.head));
    }
  }
  batch.num_elements = static_cast<std::uint64_t>(*end);
  batch.values = take_with_room(pool, batch.num_elements * stream.element_bytes);
  ElementCopier copy_elements(stream);
  const auto* begin = batch.element_offsets.as<std::int64_t>();
  for (const Run& run : runs) {
    const std::int64_t* offsets = run.column->element_offsets + run.begin;
    for (std::uint64_t i = 0; i < run.samples; ++i, ++begin) {
      const auto count = static_cast<std::uint64_t>(begin[1] - begin[0]);
      copy_elements(
          run, static_cast<std::uint64_t>(offsets[i]), count,
          batch.values.data() + static_cast<std::uint64_t>(begin[0]) * stream.element_bytes);
    }
  }
  copy_elements.check_unchanged();
}

// What takes memory: elements if their number varies, else samples.
std::uint64_t count_of(const Run& run, const StreamSpec& stream) {
  return stream.variable ? Elements(run).count : run.length;
}

[[noreturn]] void refuse_long(const Run& run, const StreamSpec& stream, const char* limit) {
  throw DataError("the sequence has " + std::to_string(count_of(run, stream)) + " " +
                      (stream.variable ? "elements" : "samples") + " of " +
                      std::to_string(stream.sample_bytes()) + " bytes, which is more than " +
                      limit,
                  {.stream = stream.name, .sequence = run.sequence});
}

// Refuses a sequence that no memory can hold: the length in a file may be any number.
void check_memory(std::span<const Run> runs, const StreamSpec& stream,
                  std::uint64_t num_samples) {
  if (!stream.variable && !exceeds_memory(num_samples, stream.sample_bytes())) return;
  for (const Run& run : runs) {
    if (exceeds_memory(count_of(run, stream), stream.sample_bytes()))
      refuse_long(run, stream, "the memory there is");
  }
}

// Refuses a sequence that takes most of a minibatch for which there was no memory. If none
// does, it is not the data that are wrong.
void check_memory_left(std::span<const Run> runs, const StreamSpec& stream) {
  std::uint64_t all = 0;
  for (const Run& run : runs) all += count_of(run, stream);
  for (const Run& run : runs) {
    const std::uint64_t count = count_of(run, stream);
    if (count != 0 && count >= all - count) refuse_long(run, stream, "memory is left");
  }
}

StreamBatch write_once(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                       const AssembleOptions& options, BufferPool& pool) {
  StreamBatch batch{.sample_bytes = stream.sample_bytes()};
  batch.sample_offsets = pool.take((runs.size() + 1) * sizeof(std::int64_t));
  auto* offset = batch.sample_offsets.as<std::int64_t>();
  offset[0] = 0;
  for (std::size_t j = 0; j < runs.size(); ++j) {
    offset[j + 1] = offset[j] + static_cast<std::int64_t>(runs[j].length);
    batch.longest = std::max<std::uint64_t>(batch.longest, runs[j].length);
  }
  batch.num_samples = static_cast<std::uint64_t>(offset[runs.size()]);
  check_memory(runs, stream, batch.num_samples);
  if (stream.head != 0) {
    write_heads(runs, stream, pool, batch);
  } else if (stream.variable) {
    write_variable(runs, stream, pool, batch);
  } else if (options.form == Form::kRagged || stream.is_ragged_in_all_forms()) {
    write_ragged(runs, stream, pool, batch);
  } else {
    const Grid grid(runs, batch.longest, plan.row_length, plan, options);
    write_grid(runs, stream, grid, pool, batch);
    if (!grid.has_own_mask()) write_beyond(runs, plan, stream, pool, batch);
  }
  return batch;
}

// Copies rows of a table one after another. Arguments are passed by value, as writes could
// otherwise alias them. REQUIRES: `to` is of take_with_room
void copy_rows(ColumnCopier copier, std::span<const PlannedSequence> share,
               std::span<const std::uint64_t> joined, std::uint64_t row_elements,
               std::uint64_t row_bytes, std::byte* to) {
  const std::size_t ahead = row_bytes > kCacheLine ? kRunsAhead : kShortRowsAhead;
  const auto first_of = [&](std::size_t j) __attribute__((always_inline)) {
    const std::uint64_t number = share[j].sequence;
    return (joined.empty() ? number : joined[number]) * row_elements;
  };
  for (std::size_t j = 0; j < std::min(ahead, share.size()); ++j)
    copier.ask_for(first_of(j), row_elements);
  for (std::size_t j = 0; j < share.size(); ++j) {
    if (j + ahead < share.size()) copier.ask_for(first_of(j + ahead), row_elements);
    copier(first_of(j), row_elements, to, share[j].sequence);
    to += row_bytes;
  }
}

}  // namespace

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
  read_untouched([&] {
    std::optional<Extents::Reader> reader;
    if (column.extents != nullptr) reader.emplace(*column.extents).read_in_memory();
    copy_rows({column, stream}, share, joined, stream.sample_elements, row_bytes,
              batch.values.data());
    if (reader) reader->check_unchanged();
  });
  return batch;
}

StreamBatch write_stream(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                         const AssembleOptions& options, BufferPool& pool) {
  try {
    return read_untouched([&] { return write_once(runs, plan, stream, options, pool); });
  } catch (const std::bad_alloc&) {
    check_memory_left(runs, stream);
    throw;
  }
}

}  // namespace sweephand
