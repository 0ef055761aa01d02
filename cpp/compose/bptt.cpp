#include "compose/bptt.hpp"

#include "compose/share.hpp"

#include <algorithm>
#include <functional>
#include <queue>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kBpttPartSequences = std::uint64_t{1} << 20;

std::uint64_t bptt_parts(const Timeline& timeline) {
  return std::max<std::uint64_t>(1, timeline.extent().sequences / kBpttPartSequences);
}

}  // namespace

BpttPart::BpttPart(Part part, std::uint32_t length, std::uint64_t num_rows)
    : part_(std::move(part)),
      length_(length),
      num_rows_(num_rows),
      rows_(std::min<std::uint64_t>(num_rows, part_.sequences.size())),
      time_(part_.begin) {
  deal();
  for (auto& block : part_.blocks) blocks_.add(std::move(block));
  part_.blocks.clear();
  for (const std::vector<RowEntry>& row : rows_) {
    for (const RowEntry& entry : row) {
      blocks_.need(part_.block_of[entry.place], entry.begin / length_);
      blocks_.need(part_.block_of[entry.place], (entry.end - 1) / length_);
    }
  }
}

// A row that has `filled` columns is topped up before the step at which no more than length_ of
// them are left; rows that ask before the same step are served by their numbers.
void BpttPart::deal() {
  using Ask = std::pair<std::uint64_t, std::size_t>;  // step, row
  std::priority_queue<Ask, std::vector<Ask>, std::greater<>> asks;
  for (std::size_t row = 0; row < rows_.size(); ++row) asks.emplace(0, row);
  for (std::uint32_t place = 0; place < part_.sequences.size(); ++place) {
    const std::size_t row = asks.top().second;
    asks.pop();
    const std::uint64_t begin = filled(row);
    const std::uint64_t end = begin + part_.sequences[place].size;
    rows_[row].push_back({.place = place, .begin = begin, .end = end});
    asks.emplace((end - 1) / length_, row);
  }
}

std::uint64_t BpttPart::filled(std::size_t row) const noexcept {
  return rows_[row].empty() ? 0 : rows_[row].back().end;
}

std::uint64_t BpttPart::time_of(std::uint64_t step) const noexcept {
  std::uint64_t time = part_.begin;
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    time += std::min(filled(row), step * length_);
  }
  return time;
}

void BpttPart::seek(std::uint64_t time) {
  std::uint64_t most = 0;  // steps of the part
  for (std::size_t row = 0; row < rows_.size(); ++row) {
    most = std::max(most, (filled(row) + length_ - 1) / length_);
  }
  std::uint64_t least = 0;
  while (least < most) {
    const std::uint64_t middle = least + (most - least) / 2;
    if (time_of(middle) < time) {
      least = middle + 1;
    } else {
      most = middle;
    }
  }
  step_ = least;
  time_ = time_of(step_);
  blocks_.close_before(step_);
}

void BpttPart::advance() {
  time_ = time_of(++step_);
  blocks_.close_before(step_);
}

std::span<const RowEntry> BpttPart::row(std::uint64_t row) const noexcept {
  if (row >= rows_.size()) return {};
  const std::vector<RowEntry>& entries = rows_[row];
  const auto begin = std::ranges::upper_bound(entries, column(), {}, &RowEntry::end);
  const auto end =
      std::ranges::lower_bound(begin, entries.end(), column() + length_, {}, &RowEntry::begin);
  return {begin, end};
}

std::uint64_t BpttPart::find(std::uint32_t place) const {
  std::uint64_t at = 0;
  const auto holds = [&](const std::vector<RowEntry>& entries) {
    for (const RowEntry& entry : entries) {
      at = entry.begin;
      if (entry.place == place) return true;
    }
    return false;
  };
  const auto found = std::ranges::find_if(rows_, holds);
  const std::uint64_t step = at / length_;
  std::uint64_t time = time_of(step) + at % length_;
  for (auto row = rows_.begin(); row != found; ++row) {
    const std::uint64_t columns = row->empty() ? 0 : row->back().end;
    time += std::min(columns, (step + 1) * length_) - std::min(columns, step * length_);
  }
  return time;
}

BpttPlanner::BpttPlanner(std::shared_ptr<const Timeline> timeline, Truncation truncation,
                         std::uint64_t limit)
    : timeline_(std::move(timeline)),
      length_(truncation.length),
      limit_(limit),
      reader_(timeline_, bptt_parts(*timeline_), limit) {
  if (length_ == 0 || length_ > kMaxCells) {
    throw std::invalid_argument("the truncation length must be in [1, 2^31), got " +
                                std::to_string(length_));
  }
}

std::uint64_t BpttPlanner::rows_of(std::uint64_t num_samples) const {
  const std::uint64_t rows = std::max<std::uint64_t>(1, num_samples / length_);
  if (rows > kMaxCells / length_) {
    throw std::invalid_argument("a minibatch of " + std::to_string(rows) + " rows of " +
                                std::to_string(length_) +
                                " samples has 2^31 cells or more; ask for a smaller one");
  }
  return rows;
}

void BpttPlanner::open(Part part, std::uint64_t num_rows) {
  open_ = std::make_unique<BpttPart>(std::move(part), length_, num_rows);
}

void BpttPlanner::seek(std::uint64_t time) {
  open_.reset();
  sought_ = time < limit_ ? time : reader_.at(limit_).end;
}

void BpttPlanner::resume(const Position& position) {
  seek(position.time);
  if (position.progress.empty()) return;
  const std::uint64_t num_rows = position.progress[0];
  if (position.progress.size() != 1 || num_rows == 0 || num_rows > kMaxCells / length_) {
    throw std::invalid_argument("the progress must be one number of rows, got " +
                                std::to_string(position.progress.size()) + " numbers");
  }
  open(reader_.at(position.time), num_rows);
  open_->seek(position.time);
  if (open_->time() == position.time) return;
  open_.reset();
  throw std::invalid_argument("no minibatch of " + std::to_string(num_rows) +
                              " rows ends at nominal time " + std::to_string(position.time));
}

void BpttPlanner::add_row(std::uint64_t row, const Request& request, PieceCounter& counter,
                          Plan& plan) const {
  const std::span<const RowEntry> entries = open_->row(row);
  plan.num_sequences += entries.size();
  const std::uint64_t column = open_->column();
  for (const RowEntry& entry : entries) {
    const std::uint64_t begin = std::max(entry.begin, column);
    const std::uint64_t end = std::min(entry.end, column + length_);
    const std::uint64_t time = counter.time();
    PlannedSequence piece = open_->part().sequences[entry.place];
    piece.size = static_cast<std::uint32_t>(end - begin);
    counter.add(piece.sequence, static_cast<std::uint32_t>(begin - entry.begin), piece.size,
                end == entry.end);
    if (row % request.num_workers != request.rank) continue;
    if (wants_times(request, plan)) plan.times.push_back(time);
    plan.share.push_back(piece);
    plan.cells.push_back({.row = static_cast<std::uint32_t>(row / request.num_workers),
                          .column = static_cast<std::uint32_t>(begin - column),
                          .first = static_cast<std::uint32_t>(begin - entry.begin),
                          .whole = open_->part().sequences[entry.place].size});
  }
}

Plan BpttPlanner::next(const Request& request) {
  check(request);
  const std::uint64_t wanted = rows_of(request.num_samples);
  if (!open_) {
    open(reader_.at(sought_), wanted);
    open_->seek(sought_);
  }
  if (open_->done() && time() < limit_) open(reader_.next(), wanted);
  Plan plan{.nominal_time = time(),
            .sweep = open_->part().sweep,
            .next = {.time = time()},
            .end_of_data = open_->done()};
  if (plan.end_of_data) return plan;
  plan.row_length = length_;
  plan.global_rows = open_->num_rows();
  plan.num_rows = static_cast<std::uint32_t>(
      plan.global_rows / request.num_workers +
      (request.rank < plan.global_rows % request.num_workers ? 1 : 0));
  PieceCounter counter(request.bans, timeline_->corpus().masks.get(), plan.nominal_time);
  for (std::uint64_t row = 0; row < plan.global_rows; ++row)
    add_row(row, request, counter, plan);
  plan.counted = counter.count();
  open_->open_blocks(plan.blocks);
  open_->advance();
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  if (open_->done()) {
    plan.sweeps_ended = open_->part().ends_sweep && timeline_->tells_sweeps() ? 1 : 0;
  } else {
    plan.next.progress = {open_->num_rows()};
    open_->open_blocks(plan.blocks);
  }
  return plan;
}

std::uint64_t BpttPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                                std::uint64_t num_samples) const {
  // A part that a limit cuts short is dealt as the whole part, up to the limit.
  PartReader reader(timeline_, bptt_parts(*timeline_), kNoLimit);
  const BpttPart part(reader.at(timeline_->find(sequence, sweep)), length_,
                      rows_of(num_samples));
  return part.find(part.part().place_of(sequence, timeline_->sweep_mark(sweep)));
}

std::vector<std::uint64_t> BpttPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                     std::uint64_t num_samples) const {
  BpttPlanner planner(timeline_, {length_}, limit_);
  planner.seek(planner.reader_.at(std::min(start, limit_)).begin);
  return plan_sequences_in(planner, start, stop, num_samples);
}

std::uint64_t BpttPlanner::boundary(std::uint64_t time) const {
  return PartReader(timeline_, bptt_parts(*timeline_), kNoLimit).boundary(time);
}

}  // namespace sweephand
