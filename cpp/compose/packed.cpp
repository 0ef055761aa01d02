#include "compose/packed.hpp"

#include "base/mix.hpp"
#include "compose/micro_batches.hpp"
#include "compose/part.hpp"
#include "compose/pieces.hpp"
#include "compose/share.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {

// Walks along the timeline, row by row.
class RowCursor {
 public:
  RowCursor() = default;
  RowCursor(const RowCursor&) = delete;
  RowCursor& operator=(const RowCursor&) = delete;
  virtual ~RowCursor() = default;

  // Nominal time of the front row.
  virtual std::uint64_t time() const noexcept = 0;

  // The sweep has no more rows; time() is its end.
  virtual bool sweep_done() const noexcept = 0;

  // Goes to the first row of the next sweep. REQUIRES: sweep_done()
  virtual void enter_next_sweep() = 0;

  // The next row of the sweep. Valid until the next call. REQUIRES: !sweep_done()
  virtual std::span<const Piece> front() const noexcept = 0;

  // Goes on by one row. REQUIRES: !sweep_done()
  virtual void pop() = 0;

  // Adds the blocks that the front row is the first to need. Keeping them keeps their chunks
  // open.
  virtual void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;

  // Adds the blocks that are open; a block may come several times.
  virtual void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;
};

namespace {

constexpr std::uint64_t kRowShuffle = 5;  // the purpose of a key: docs/layouts.md, section 3
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 11;  // of a pack, about
constexpr std::uint64_t kMostSequences = std::uint64_t{1} << 18;
constexpr std::uint64_t kLeastRows = 512;

// Packs of about kMostRows, but of no more than about kMostSequences, and of no more chunks
// than the window, if those fill kLeastRows.
std::uint64_t parts_per_sweep(const Timeline& timeline, const Packing& packing) {
  const auto [samples, sequences, blocks] = timeline.extent();
  const std::uint64_t most = kMostRows * packing.row_length;
  const std::uint64_t lanes = timeline.settings().num_lanes;
  const std::uint64_t windows = (blocks + lanes - 1) / lanes;
  return std::max({std::uint64_t{1}, (samples + most / 2) / most, sequences / kMostSequences,
                   std::min(windows, samples / (kLeastRows * packing.row_length))});
}

PartReader reader_of(const std::shared_ptr<const Timeline>& timeline, const Packing& packing) {
  return {timeline, parts_per_sweep(*timeline, packing), kNoLimit};
}

std::unique_ptr<Pack> pack_of(Part part, const Packing& packing, const Timeline& timeline) {
  if (part.sequences.empty()) refuse_changed_sizes();
  Pieces pieces(packing);
  pieces.reserve(part.sequences.size());
  for (auto& block : part.blocks) pieces.add(std::move(block));
  for (std::size_t place = 0; place < part.sequences.size(); ++place) {
    pieces.add(part.sequences[place], part.block_of[place]);
  }
  if (!timeline.first_sequences().empty())
    return pieces.of_mixture(timeline.first_sequences(), part.begin);
  return pieces.shuffled(derive_key({kOrderVersion, timeline.settings().seed, kRowShuffle,
                                     part.sweep, part.number}),
                         part.begin);
}

// Rows of all lanes, or all corpora of a mixture, together: each part of a sweep is a pack
// (docs/layouts.md, section 3).
class PartRows final : public RowCursor {
 public:
  PartRows(const std::shared_ptr<const Timeline>& timeline, const Packing& packing,
           std::uint64_t time)
      : timeline_(timeline), packing_(packing), reader_(reader_of(timeline, packing)) {
    open(reader_.at(time));
    while (this->time() < time && !sweep_done()) pop();
  }

  std::uint64_t time() const noexcept override { return pack_->starts[row_]; }
  bool sweep_done() const noexcept override { return ends_sweep_ && pack_done(); }
  void enter_next_sweep() override { open(reader_.next()); }
  std::span<const Piece> front() const noexcept override { return pack_->row(row_); }
  // Where the next pack fails, the last row of this one stays in front.
  void pop() override {
    if (row_ + 1 == pack_->num_rows() && !ends_sweep_) {
      open(reader_.next());
      return;
    }
    ++row_;
    if (!pack_done()) pack_->blocks.close_before(row_);
  }
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    pack_->blocks.opened_at(row_, blocks);
  }
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    if (!pack_done()) pack_->blocks.open_at(row_, blocks);
  }

 private:
  bool pack_done() const noexcept { return row_ == pack_->num_rows(); }
  void open(Part part) {
    ends_sweep_ = part.ends_sweep;
    pack_ = pack_of(std::move(part), packing_, *timeline_);
    row_ = 0;
  }

  std::shared_ptr<const Timeline> timeline_;
  Packing packing_;
  PartReader reader_;
  std::unique_ptr<Pack> pack_;  // rows start at nominal times
  std::uint64_t row_ = 0;
  bool ends_sweep_ = false;
};

constexpr std::uint64_t kPackRows = std::uint64_t{1} << 14;  // about as many

// The sequences that start in [begin, end) of the sweep's list are packed together.
struct PackRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// REQUIRES: sample < sweep.num_samples()
PackRange range_at(const Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  const uint128 pack_samples = uint128{kPackRows} * packing.row_length;
  const uint128 samples = sweep.num_samples();
  const uint128 count = std::max<uint128>(1, (samples + pack_samples / 2) / pack_samples);
  // The largest index whose begin is at or before `sample`.
  const uint128 index = ((uint128{sample} + 1) * count - 1) / samples;
  return {.begin = static_cast<std::uint64_t>(index * samples / count),
          .end = static_cast<std::uint64_t>((index + 1) * samples / count)};
}

// The range of the pack whose rows cover `sample`. REQUIRES: sample < sweep.num_samples()
PackRange range_holding(Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  PackRange range = range_at(sweep, packing, sample);
  // `sample` may be after the range of its pack, in the last sequence that starts there.
  while (sweep.first_at_or_after(range.begin).start > sample) {
    if (range.begin == 0) refuse_changed_sizes();
    range = range_at(sweep, packing, range.begin - 1);
  }
  return range;
}

// The pack whose rows cover `sample`. REQUIRES: sample < sweep.num_samples()
std::unique_ptr<Pack> pack_holding(Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  const PackRange range = range_holding(sweep, packing, sample);
  Pieces pieces(packing);
  ListPlace at = sweep.first_at_or_after(range.begin);
  const std::uint64_t start = at.start;
  std::array<PlannedSequence, 64> buffer{};
  std::uint32_t number = 0;  // of the block
  for (; at.start < range.end; ++at.block, at.place = 0) {
    const std::shared_ptr<const Block> block = sweep.block(at.block);
    const BlockPlace stop = block->first_at_or_after(range.end - sweep.block_begin(at.block));
    at.start = sweep.block_begin(at.block) + stop.start;
    if (at.place == stop.place) continue;
    pieces.add(block);
    pieces.reserve(stop.place - at.place);
    while (at.place < stop.place) {
      const std::span part = std::span(buffer).first(
          std::min<std::uint64_t>(buffer.size(), stop.place - at.place));
      block->fill(at.place, 0, part);
      for (const PlannedSequence& planned : part) pieces.add(planned, number);
      at.place += part.size();
    }
    ++number;
  }
  return pieces.in_order(start);
}

// Rows of sweeps whose order is kept: docs/layouts.md, section 3.
class OrderedRows final : public RowCursor {
 public:
  OrderedRows(std::shared_ptr<const SweepTimeline> timeline, const Packing& packing,
              std::uint64_t time)
      : timeline_(std::move(timeline)),
        packing_(packing),
        sweep_(timeline_->sweep(time / timeline_->num_samples())) {
    open_sweep(time % timeline_->num_samples());
  }

  std::uint64_t time() const noexcept override { return time_; }
  bool sweep_done() const noexcept override { return pack_ == nullptr; }
  void enter_next_sweep() override {
    sweep_ = timeline_->sweep(sweep_.number() + 1);
    open_sweep(0);
  }
  std::span<const Piece> front() const noexcept override { return pack_->row(row_); }
  void pop() override {
    const std::uint64_t start = pack_->starts[row_ + 1];
    time_ += start - pack_->starts[row_];
    if (++row_ == pack_->num_rows())
      open_pack(start);
    else
      pack_->blocks.close_before(row_);
  }
  void opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    pack_->blocks.opened_at(row_, blocks);
  }
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override {
    if (pack_) pack_->blocks.open_at(row_, blocks);
  }

 private:
  // Stands at the first row that starts at or after `sample` of the sweep.
  void open_sweep(std::uint64_t sample) {
    time_ = checked_mul(sweep_.number(), sweep_.num_samples());
    checked_add(time_, sweep_.num_samples());
    pack_ = pack_holding(sweep_, packing_, sample);
    const std::vector<std::uint64_t>& starts = pack_->starts;
    const auto found = std::ranges::lower_bound(starts, sample);
    if (found == starts.end()) refuse_changed_sizes();
    time_ += *found;
    row_ = static_cast<std::uint64_t>(found - starts.begin());
    if (row_ == pack_->num_rows()) open_pack(*found);
    sweep_.let_go();
  }
  // Stands at the row that starts at `start`, or at the end of the sweep.
  void open_pack(std::uint64_t start) {
    pack_.reset();  // at the end its chunks may be closed
    if (start >= sweep_.num_samples()) return;
    pack_ = pack_holding(sweep_, packing_, start);
    row_ = pack_->row_at(start);
    sweep_.let_go();
  }

  std::shared_ptr<const SweepTimeline> timeline_;
  Packing packing_;
  Sweep sweep_;
  std::uint64_t time_ = 0;
  std::unique_ptr<Pack> pack_;  // null at the end of the sweep
  std::uint64_t row_ = 0;
};

// The timeline if its order is kept, in rows of neighbours; else null.
std::shared_ptr<const SweepTimeline> kept(const std::shared_ptr<const Timeline>& timeline) {
  return timeline->settings().randomize ? nullptr : timeline->in_lanes();
}

std::unique_ptr<RowCursor> open_rows(const std::shared_ptr<const Timeline>& timeline,
                                     const Packing& packing, std::uint64_t time) {
  if (const auto sweeps = kept(timeline))
    return std::make_unique<OrderedRows>(sweeps, packing, time);
  return std::make_unique<PartRows>(timeline, packing, time);
}

struct KeptRow {
  std::span<const Piece> pieces;
  std::uint16_t sweep = 0;  // after that of the plan
  std::uint64_t time = 0;   // at which it begins
};

// The candidate rows of a worker in a global minibatch: without balance, its own rows.
class KeptRows {
 public:
  KeptRows(const Request& request, std::uint32_t micro_batch_rows)
      : request_(request), micro_batch_rows_(micro_batch_rows) {}

  void add(std::uint64_t number, const KeptRow& row) {
    if (!request_.balance && number % request_.num_workers != request_.rank) return;
    pieces_.insert(pieces_.end(), row.pieces.begin(), row.pieces.end());
    ends_.push_back(pieces_.size());
    sweeps_.push_back(row.sweep);
    times_.push_back(row.time);
  }

  // The rows of the worker. Rows that only fill a micro-batch are empty.
  std::vector<KeptRow> share() const {
    std::vector<KeptRow> rows;
    for (std::size_t begin = 0, j = 0; j < ends_.size(); begin = ends_[j++]) {
      rows.push_back(
          {std::span(pieces_).subspan(begin, ends_[j] - begin), sweeps_[j], times_[j]});
    }
    if (!request_.balance) return rows;
    if (micro_batch_rows_ == 0) {
      if (request_.num_workers == 1) return rows;
      return owned_by(request_.rank, rows, deal_costs(costs(rows), request_.num_workers));
    }
    std::vector<KeptRow> mine;
    for (const std::uint32_t row :
         micro_batches(costs(rows), request_.num_workers, request_.rank, micro_batch_rows_)) {
      mine.push_back(row == kNoRow ? KeptRow{} : rows[row]);
    }
    return mine;
  }

 private:
  std::vector<uint128> costs(std::span<const KeptRow> rows) const {
    const Cost cost = request_.balance.value_or(Cost{});
    std::vector<uint128> costs(rows.size());
    for (std::size_t j = 0; j < rows.size(); ++j) {
      for (const Piece& piece : rows[j].pieces)
        costs[j] += cost.of(piece.sequence, piece.first, piece.size);
    }
    return costs;
  }

  const Request& request_;
  std::uint32_t micro_batch_rows_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> ends_;      // of each row in pieces_
  std::vector<std::uint16_t> sweeps_;  // of each row, after that of the plan
  std::vector<std::uint64_t> times_;   // of each row
};

}  // namespace

PackedPlanner::PackedPlanner(std::shared_ptr<const Timeline> timeline, const Packing& packing,
                             std::uint64_t limit)
    : timeline_(std::move(timeline)), packing_(packing), limit_(limit) {
  check(packing);
}

PackedPlanner::~PackedPlanner() = default;

// Stands at the first row of the sweep that begins at or after `time`, or at the sweep's end.
void PackedPlanner::seek(std::uint64_t time) {
  cursor_ = open_rows(timeline_, packing_, std::min(time, limit_));
}

std::uint64_t PackedPlanner::time() const { return cursor_ ? cursor_->time() : 0; }

// The most rows of the global minibatch.
std::uint64_t PackedPlanner::num_rows(const Request& request) const {
  if (request.num_samples == Request::kToSweepEnd) return Request::kToSweepEnd;
  return std::max<std::uint64_t>(1, request.num_samples / packing_.row_length);
}

// Every worker has the same number of rows, in whole micro-batches.
std::uint64_t PackedPlanner::share_rows(std::uint64_t global_rows,
                                        const Request& request) const {
  const std::uint64_t most = divide_up(global_rows, request.num_workers);
  const std::uint64_t together = std::max(packing_.micro_batch_rows, 1U);
  return divide_up(most, together) * together;
}

std::uint32_t PackedPlanner::whole_size(const Piece& piece) const {
  std::uint32_t size = piece.size;
  const bool whole = piece.first == 0 && piece.goes_on == 0;
  if (!whole) timeline_->corpus().sizes->read(piece.sequence, {&size, 1});
  return size;
}

void PackedPlanner::add_row(std::span<const Piece> pieces, std::uint16_t sweep,
                            Plan& plan) const {
  const std::uint32_t row = plan.num_rows++;
  std::uint32_t column = 0;
  for (const Piece& piece : pieces) {
    const auto behind = static_cast<std::uint16_t>(sweep + piece.sweep);
    plan.share.push_back(
        {.sequence = piece.sequence, .size = piece.size, .lane = 0, .sweep = behind});
    plan.cells.push_back(
        {.row = row, .column = column, .first = piece.first, .whole = whole_size(piece)});
    column += piece.size;
  }
}

Plan PackedPlanner::next(const Request& request) {
  check(request);
  const std::uint64_t wanted = num_rows(request);
  if (!cursor_) seek(0);
  Plan plan;
  plan.nominal_time = time();
  plan.row_length = packing_.row_length;
  if (request.tells_blocks) cursor_->open_blocks(plan.blocks);
  KeptRows rows(request, packing_.micro_batch_rows);
  PieceCounter counter(request.bans, timeline_->corpus().masks.get(), plan.nominal_time);
  const std::uint64_t end = std::min(limit_, request.end);
  while (plan.global_rows < wanted && time() < end) {
    if (share_rows(plan.global_rows + 1, request) > kMaxCells / plan.row_length) {
      seek(plan.nominal_time);
      throw std::invalid_argument(
          "a share of the minibatch would have 2^31 cells or more in rows of " +
          std::to_string(plan.row_length) + "; ask for a smaller one");
    }
    if (cursor_->sweep_done()) cursor_->enter_next_sweep();
    if (request.tells_blocks) cursor_->opened_blocks(plan.blocks);
    const std::uint64_t sweep = time() / timeline_->num_samples();
    if (plan.global_rows == 0) plan.sweep = sweep;
    rows.add(plan.global_rows++, {cursor_->front(), sweeps_behind(sweep, plan), time()});
    plan.num_sequences += cursor_->front().size();
    for (const Piece& piece : cursor_->front())
      counter.add(piece.sequence, piece.first, piece.size, piece.goes_on == 0);
    cursor_->pop();
    if (!cursor_->sweep_done()) continue;
    if (timeline_->tells_sweeps()) ++plan.sweeps_ended;
    if (!request.crosses_sweeps || wanted == Request::kToSweepEnd) break;
  }
  if (request.tells_blocks) cursor_->open_blocks(plan.blocks);
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  plan.end_of_data = plan.global_rows == 0;
  plan.counted = counter.count();
  for (const auto& [pieces, sweep, begin] : rows.share()) {
    add_row(pieces, sweep, plan);
    if (!wants_times(request, plan)) continue;
    std::uint64_t begins = begin;
    for (const Piece& piece : pieces) {
      plan.times.push_back(begins);
      begins += piece.size;
    }
  }
  plan.num_rows = static_cast<std::uint32_t>(share_rows(plan.global_rows, request));
  return plan;
}

// Where it begins in its row.
std::uint64_t PackedPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                                  std::uint64_t /*num_samples*/) const {
  std::unique_ptr<Pack> pack;
  std::uint64_t sweep_begin = 0;
  std::uint16_t mark = 0;
  if (const auto sweeps = kept(timeline_)) {
    sweep_begin = checked_mul(sweep, sweeps->num_samples());
    Sweep list = sweeps->sweep(sweep);
    pack = pack_holding(list, packing_, list.find(sequence).start);
  } else {
    PartReader reader = reader_of(timeline_, packing_);
    pack = pack_of(reader.at(timeline_->find(sequence, sweep)), packing_, *timeline_);
    mark = timeline_->sweep_mark(sweep);
  }
  const Pack::Place place = pack->find(sequence, mark);
  return checked_add(sweep_begin, pack->starts[place.row] + place.column);
}

std::vector<std::uint64_t> PackedPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                       std::uint64_t /*num_samples*/) const {
  PackedPlanner planner(timeline_, packing_, limit_);
  // The row that holds `start` begins at most a row before it.
  planner.seek(start - std::min<std::uint64_t>(start, packing_.row_length));
  return plan_sequences_in(planner, start, stop, 1);
}

std::uint64_t PackedPlanner::boundary(std::uint64_t time) const {
  if (kept(timeline_) == nullptr) return reader_of(timeline_, packing_).boundary(time);
  const std::uint64_t left = time % timeline_->num_samples();
  return left == 0 ? time : checked_add(time, timeline_->num_samples() - left);
}

}  // namespace sweephand
