#include "engine/assemble.hpp"

#include "engine/runs.hpp"

#include <utility>

namespace sweephand {
Assembler::Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
                     const AssembleOptions& options, bool load_ahead, std::uint64_t led_by,
                     Report report)
    : members_(std::move(members), streams, load_ahead, led_by, report),
      streams_(std::move(streams)),
      options_(options),
      report_(std::move(report)) {
  for (const StreamSpec& stream : streams_) {
    const std::shared_ptr<const Chunk> chunk = members_.resident(stream.member);
    const Column* const column = chunk == nullptr ? nullptr : &chunk->columns[stream.column];
    const bool is_table = column != nullptr && chunk->skipped.empty() &&
                          column->values != nullptr && column->sample_offsets == nullptr &&
                          !stream.variable && !stream.broadcast &&
                          (options_.form == Form::kRagged || stream.single ||
                           (stream.carried && options_.form == Form::kPadded));
    tables_.push_back(is_table ? column : nullptr);
    reads_as_written_ = reads_as_written_ || (column != nullptr && column->extents != nullptr);
  }
}

std::shared_ptr<const Batch> Assembler::assemble(Plan plan, const Turn& turn) {
  const Members::Making making(members_, plan);
  std::vector<std::unique_ptr<Located>> located(members_.size());  // null: not needed
  std::vector<std::vector<Run>> runs(streams_.size());             // empty of tables
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    if (tables_[number] != nullptr) continue;
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
  batch->Plan::operator=(std::move(plan));
  batch->count();
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
  const std::scoped_lock lock(mutex_);
  for (const StreamBatch& stream : batch->streams) bytes_assembled_ += stream.values.size();
  write_ += clock.elapsed();
  return batch;
}

StreamBatch Assembler::write_stream_of(std::size_t number, const Plan& plan,
                                       const std::vector<Run>& runs) {
  const StreamSpec& stream = streams_[number];
  if (tables_[number] != nullptr)
    return write_rows(*tables_[number], plan.share, members_.joined(stream.member), stream,
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
