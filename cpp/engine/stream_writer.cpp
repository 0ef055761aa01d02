#include "engine/stream_writer.hpp"

#include "base/error.hpp"
#include "engine/convert.hpp"
#include "engine/copy.hpp"
#include "read/extents.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace sweephand {
namespace {

constexpr std::size_t kRunsAhead = 8;  // of the run that is copied, the one that is fetched

// Copies elements of one column as the elements of the stream. Buffers have room for kShort
// bytes more than they hold: what is short is copied with whatever lies behind it, which is
// written over by what comes next.
class ElementCopier {
 public:
  ElementCopier(const StreamSpec& stream) : stream_(stream) {}
  ElementCopier(const ElementCopier&) = delete;
  ElementCopier& operator=(const ElementCopier&) = delete;
  ~ElementCopier() = default;

  // To be called in the order of `to`.
  void operator()(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    const Column& column = *run.column;
    if (&column != column_) enter(column);
    const std::uint64_t offset = first * column.element_bytes;
    if (offset < short_before_ && count * column.element_bytes <= kShort) {
      copy_short(column.values + offset, to, count * column.element_bytes);
    } else {
      exactly(run, first, count, to);
    }
  }

  // The same where what lies behind has been written already.
  void exactly(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    const Column& column = *run.column;
    if (&column != column_) enter(column);
    if (column.values == nullptr && column.extents != nullptr) {
      read(run, first, count, to);
    } else if (column.type == stream_.type) {
      copy(column.values + first * column.element_bytes, to, count * column.element_bytes);
    } else {
      convert_from(column.values + first * column.element_bytes, run, count, to);
    }
  }

  // To be called in the end: throws when a file changed while it was read.
  void check_unchanged() {
    for (auto& [extents, reader] : readers_) reader.check_unchanged();
  }

 private:
  void enter(const Column& column) {
    column_ = &column;
    const bool as_it_is = column.values != nullptr && column.type == stream_.type;
    short_before_ = as_it_is ? short_before(column) : 0;
    if (column.extents == extents_) return;
    extents_ = column.extents;
    if (extents_ == nullptr) return;
    reader_ = &readers_.try_emplace(extents_, *extents_).first->second;
    if (column.values != nullptr) reader_->read_in_memory();
  }

  void read(const Run& run, std::uint64_t first, std::uint64_t count, std::byte* to) {
    const Column& column = *run.column;
    const std::uint64_t bytes = count * column.element_bytes;
    const bool direct = column.type == stream_.type;
    if (!direct) buffer_.resize(bytes);
    reader_->read(first * column.element_bytes, {direct ? to : buffer_.data(), bytes});
    if (!direct) convert_from(buffer_.data(), run, count, to);
  }

  void convert_from(const std::byte* from, const Run& run, std::uint64_t count,
                    std::byte* to) const {
    const auto refused = convert(run.column->type, from, stream_.type, to, count);
    if (!refused) return;
    throw DataError("element " + std::to_string(*refused) +
                        " of the sequence does not fit the dtype that was asked for; declare a "
                        "wider dtype in its StreamDef",
                    {.stream = stream_.name, .sequence = run.sequence});
  }

  const StreamSpec& stream_;
  std::vector<std::byte> buffer_;
  std::map<const Extents*, Extents::Reader> readers_;
  const Column* column_ = nullptr;    // that was copied from last
  std::uint64_t short_before_ = 0;    // kShort bytes may be read from offsets below
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

// Where each run goes: the cell of a grid, or simply behind the run before it.
class Grid {
 public:
  Grid(std::span<const Run> runs, std::uint64_t longest, std::uint64_t least_width,
       const Plan& plan, const AssembleOptions& options)
      : runs_(runs), plan_(plan), options_(options) {
    if (options.form == Form::kRows) {
      rows = plan.num_rows;
      width = plan.row_length;
    } else {
      rows = runs.size();
      width = std::max(options.rounded_up(longest), least_width);
    }
  }

  std::uint64_t cell(std::size_t j) const {
    if (options_.form == Form::kRows) {
      return plan_.cells[j].row * width + plan_.cells[j].column;
    }
    return j * width + (options_.pad_left ? width - runs_[j].length : 0);
  }

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

[[gnu::always_inline]] inline void prefetch_run(const Run& run, std::uint64_t elements) {
  const Column& column = *run.column;
  if (column.values == nullptr) return;
  const std::uint64_t bytes = elements * column.element_bytes;
  prefetch(column.values + run.begin * bytes, run.samples * bytes, 8);
}

void write_ragged(std::span<const Run> runs, const StreamSpec& stream, BufferPool& pool,
                  StreamBatch& batch) {
  const std::uint64_t sample_bytes = stream.sample_bytes();
  batch.values = take_with_room(pool, batch.num_samples * sample_bytes);
  ElementCopier copy_elements(stream);
  std::byte* to = batch.values.data();
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (j + kRunsAhead < runs.size())
      prefetch_run(runs[j + kRunsAhead], stream.sample_elements);
    write_run(copy_elements, runs[j], stream.sample_elements, sample_bytes, to);
    to += runs[j].length * sample_bytes;
  }
  copy_elements.check_unchanged();
}

void write_grid(std::span<const Run> runs, const StreamSpec& stream, const Grid& grid,
                BufferPool& pool, StreamBatch& batch) {
  const std::uint64_t sample_bytes = stream.sample_bytes();
  const std::uint64_t cells = grid.rows * grid.width;
  batch.rows = grid.rows;
  batch.width = grid.width;
  batch.stride = grid.width;
  batch.values = take_with_room(pool, cells * sample_bytes);
  ElementCopier copy_elements(stream);
  std::byte* values = batch.values.data();
  std::uint64_t filled = 0;  // cells before it are done: runs come in the order of their cells
  const auto pad_to = [&](std::uint64_t cell) {
    fill(values + filled * sample_bytes, (cell - filled) * stream.sample_elements,
         std::as_bytes(std::span(stream.pad_value)));
    filled = cell;
  };
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (j + kRunsAhead < runs.size())
      prefetch_run(runs[j + kRunsAhead], stream.sample_elements);
    pad_to(grid.cell(j));
    write_run(copy_elements, runs[j], stream.sample_elements, sample_bytes,
              values + filled * sample_bytes);
    filled += runs[j].length;
  }
  pad_to(cells);
  copy_elements.check_unchanged();
}

void write_mask(std::span<const Run> runs, const Grid& grid, BufferPool& pool,
                StreamBatch& batch) {
  batch.mask = pool.take(grid.rows * grid.width);
  auto* const mask = batch.mask.as<std::uint8_t>();
  std::uint64_t filled = 0;  // cells before it are done
  const auto mark_to = [&](std::uint64_t cell, std::uint8_t mark) {
    std::memset(mask + filled, mark, cell - filled);
    filled = cell;
  };
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (runs[j].length == 0) continue;
    const std::uint64_t begin = grid.cell(j);
    mark_to(begin, 0);
    mark_to(begin + runs[j].length, 1);
    mask[begin] = 2;
  }
  mark_to(grid.rows * grid.width, 0);
}

// The sample behind every piece that goes on, as labels need it.
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
}

// Asks for the elements of a run and what they are called.
[[gnu::always_inline]] inline void prefetch_elements(const Run& run) {
  const Column& column = *run.column;
  const std::int64_t* offsets = column.element_offsets + run.begin;
  const auto first = static_cast<std::uint64_t>(offsets[0]);
  const auto count = static_cast<std::uint64_t>(offsets[run.samples]) - first;
  if (column.values != nullptr)
    prefetch(column.values + first * column.element_bytes, count * column.element_bytes, 8);
  if (column.indices != nullptr)
    prefetch(reinterpret_cast<const std::byte*>(column.indices + first),
             count * sizeof(std::int32_t), 8);
}

// Samples of several elements each: the elements, where each sample's begin, and what they are
// called.
void write_variable(std::span<const Run> runs, const StreamSpec& stream, BufferPool& pool,
                    StreamBatch& batch) {
  for (const Run& run : runs) {
    const std::int64_t* offsets = run.column->element_offsets + run.begin;
    batch.num_elements += static_cast<std::uint64_t>(offsets[run.samples] - offsets[0]);
  }
  batch.values = take_with_room(pool, batch.num_elements * stream.element_bytes);
  batch.element_offsets = pool.take((batch.num_samples + 1) * sizeof(std::int64_t));
  const bool sparse = !runs.empty() && runs[0].column->indices != nullptr;
  if (sparse) batch.indices = pool.take(batch.num_elements * sizeof(std::int32_t));
  ElementCopier copy_elements(stream);
  auto* element_offset = batch.element_offsets.as<std::int64_t>();
  *element_offset = 0;
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (j + kRunsAhead < runs.size()) prefetch_elements(runs[j + kRunsAhead]);
    const Run& run = runs[j];
    const std::int64_t* offsets = run.column->element_offsets + run.begin;
    const auto first = static_cast<std::uint64_t>(offsets[0]);
    const auto count = static_cast<std::uint64_t>(offsets[run.samples]) - first;
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

}  // namespace

StreamBatch write_stream(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
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
  if (stream.variable) {
    write_variable(runs, stream, pool, batch);
  } else if (options.form == Form::kRagged || stream.single) {
    write_ragged(runs, stream, pool, batch);
  } else {
    const Grid grid(runs, batch.longest, plan.row_length, plan, options);
    write_grid(runs, stream, grid, pool, batch);
    if (options.form == Form::kPadded) {
      write_mask(runs, grid, pool, batch);
    } else {
      write_beyond(runs, plan, stream, pool, batch);
    }
  }
  return batch;
}

}  // namespace sweephand
