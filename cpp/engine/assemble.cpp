#include "engine/assemble.hpp"

#include "engine/stream_writer.hpp"

#include <algorithm>
#include <utility>

namespace sweephand {
namespace {

// True if each sequence has the planned samples, by the streams that count.
bool is_as_planned(const Batch& batch, const Plan& plan, std::span<const StreamSpec> streams) {
  std::vector<const std::int64_t*> offsets;
  std::int64_t least = 0;
  for (std::size_t number = 0; number < streams.size(); ++number) {
    if (!streams[number].counts) continue;
    const Buffer& own = batch.streams[number].sample_offsets;
    if (own) {
      offsets.push_back(own.as<std::int64_t>());
    } else {
      least = 1;  // a table has one sample per sequence
    }
  }
  if (offsets.empty() && least == 0) return true;
  bool as_planned = true;
  if (offsets.size() == 1 && least == 0) {
    const std::int64_t* const own = offsets[0];
    for (std::size_t j = 0; j < plan.share.size(); ++j)
      as_planned &= std::cmp_equal(own[j + 1] - own[j], plan.share[j].size);
    return as_planned;
  }
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    std::int64_t size = least;
    for (const std::int64_t* own : offsets) size = std::max(size, own[j + 1] - own[j]);
    as_planned &= std::cmp_equal(size, plan.share[j].size);
  }
  return as_planned;
}

}  // namespace

Assembler::Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
                     const AssembleOptions& options, bool load_ahead, std::uint64_t led_by,
                     Report report)
    : members_(std::move(members), streams, load_ahead, led_by, report),
      streams_(std::move(streams)),
      options_(options),
      report_(std::move(report)) {
  lies_as_delivered_ = options_.form != Form::kRows;
  for (const StreamSpec& stream : streams_) {
    const Chunk* chunk = members_.resident(stream.member).get();
    const Column* column = chunk == nullptr ? nullptr : &chunk->columns[stream.column];
    const bool direct = column != nullptr && chunk->skipped.empty() &&
                        one_behind_the_other(stream) && lies_as_delivered(*column, stream);
    columns_.push_back(column);
    parted_.push_back(parted_of(stream));
    is_table_.push_back(direct && column->sample_offsets == nullptr);
    lies_as_delivered_ = lies_as_delivered_ && (direct || parted_.back());
    reads_as_written_ = reads_as_written_ || (column != nullptr && column->extents != nullptr);
  }
}

// The parts of the column, if all are in memory as they are delivered.
std::optional<PartedColumn> Assembler::parted_of(const StreamSpec& stream) const {
  const std::span parts = members_.resident_parts(stream.member);
  if (parts.empty() || !members_.joined(stream.member).empty() || !one_behind_the_other(stream))
    return std::nullopt;
  std::vector<Column> columns;
  std::vector<std::uint64_t> starts;
  for (const ResidentPart& part : parts) {
    const Column& column = columns.emplace_back(part.chunk->columns[stream.column]);
    if (!lies_as_delivered(column, stream) || column.extents != nullptr) return std::nullopt;
    starts.push_back(part.first_sequence);
  }
  starts.push_back(parts.back().first_sequence + parts.back().chunk->num_sequences);
  return std::optional<PartedColumn>(std::in_place, std::move(columns), std::move(starts),
                                     stream);
}

bool Assembler::one_behind_the_other(const StreamSpec& stream) const noexcept {
  return options_.form == Form::kRagged || stream.single ||
         (stream.carried && options_.form == Form::kPadded);
}

std::shared_ptr<const Batch> Assembler::assemble(Plan plan, const Turn& turn) {
  const Members::Making making(members_, plan);
  std::shared_ptr<Batch> batch = lies_as_delivered_ ? write_directly(plan) : nullptr;
  if (batch == nullptr) batch = write_by_runs(plan, turn);
  plan.blocks.clear();
  batch->Plan::operator=(std::move(plan));
  batch->count();
  return batch;
}

// Null if anything is not as planned, or does not fit; the way by runs then finds the error.
std::shared_ptr<Batch> Assembler::write_directly(const Plan& plan) try {
  const WorkClock clock(reads_as_written_ ? Watch::kWaits : Watch::kTotal);
  auto batch = std::make_shared<Batch>();
  batch->options = options_;
  batch->streams.reserve(streams_.size());
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    const StreamSpec& stream = streams_[number];
    const auto& joined = members_.joined(stream.member);
    if (const auto& parted = parted_[number]) {
      auto written = parted->write(plan.share, pool_);
      if (!written) return nullptr;
      batch->streams.push_back(*std::move(written));
    } else if (is_table_[number]) {
      batch->streams.push_back(
          write_rows(*columns_[number], plan.share, joined, stream, pool_));
    } else if (auto written =
                   write_sequences(*columns_[number], plan.share, joined, stream, pool_)) {
      batch->streams.push_back(*std::move(written));
    } else {
      return nullptr;
    }
  }
  if (!is_as_planned(*batch, plan, streams_)) return nullptr;
  add_up(*batch, clock);
  return batch;
} catch (const DataError&) {
  return nullptr;
}

std::shared_ptr<Batch> Assembler::write_by_runs(Plan& plan, const Turn& turn) {
  std::vector<std::unique_ptr<Located>> located(members_.size());  // null: not needed
  std::vector<std::vector<Run>> runs(streams_.size());             // empty of tables
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    if (is_table_[number]) continue;
    const std::size_t member = streams_[number].member;
    if (!located[member])
      located[member] = std::make_unique<Located>(members_.locate(member, plan, turn));
    runs[number] = runs_of(*located[member], plan, streams_[number]);
  }
  turn.pass();
  leave_out_unusable(runs, plan, streams_, report_);
  std::shared_ptr<Batch> batch = write_deliverable(plan, runs);
  plan.blocks.clear();
  if (members_.keeps_chunks()) members_.settle(located[0] ? located[0]->chunks.size() : 0);
  return batch;
}

// A sequence that is found damaged only when it is copied, as a value does not fit the dtype,
// is left out too: then everything is written again without it.
std::shared_ptr<Batch> Assembler::write_deliverable(Plan& plan,
                                                    std::vector<std::vector<Run>>& runs) {
  while (true) {
    try {
      return write(plan, runs);
    } catch (const DataError& error) {
      if (error.is_stale() || !error.place().sequence) throw;
      const std::size_t before = plan.share.size();
      report_(error);
      leave_out(*error.place().sequence, runs, plan);
      if (plan.share.size() == before) throw;
    }
  }
}

std::shared_ptr<Batch> Assembler::write(const Plan& plan,
                                        const std::vector<std::vector<Run>>& runs) {
  const WorkClock clock(reads_as_written_ ? Watch::kWaits : Watch::kTotal);
  auto batch = std::make_shared<Batch>();
  batch->options = options_;
  batch->streams.reserve(streams_.size());
  if (options_.form == Form::kRows) batch->marks = mark_rows(plan, options_.segments, pool_);
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    batch->streams.push_back(write_stream_of(number, plan, runs[number]));
    StreamBatch& written = batch->streams.back();
    if (batch->marks.mask && !streams_[number].is_ragged_in_all_forms()) {
      written.mask = batch->marks.mask;
      written.rows = plan.num_rows;
      written.width = plan.row_length;
      written.stride = plan.row_length;
    }
  }
  add_up(*batch, clock);
  return batch;
}

void Assembler::add_up(const Batch& batch, const WorkClock& clock) {
  const std::scoped_lock lock(mutex_);
  for (const StreamBatch& stream : batch.streams) bytes_assembled_ += stream.values.size();
  write_ += clock.elapsed();
}

StreamBatch Assembler::write_stream_of(std::size_t number, const Plan& plan,
                                       const std::vector<Run>& runs) {
  const StreamSpec& stream = streams_[number];
  if (is_table_[number])
    return write_rows(*columns_[number], plan.share, members_.joined(stream.member), stream,
                      pool_);
  if (stream.single) check_single(runs, stream);
  if (stream.single || (!stream.broadcast && plan.cells.empty()))
    return write_stream(runs, plan, stream, options_, pool_);
  std::vector<Run> fitted = runs;
  fit_to_plan(fitted, plan, stream);
  return write_stream(fitted, plan, stream, options_, pool_);
}

AssembleStats Assembler::stats() const {
  AssembleStats stats{members_.stats()};
  const std::scoped_lock lock(mutex_);
  stats.bytes_assembled = bytes_assembled_;
  stats.write = write_;
  return stats;
}

}  // namespace sweephand
