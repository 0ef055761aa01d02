#include "compose/packed.hpp"

#include "base/mix.hpp"
#include "compose/share.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

// The rows of one worker, one micro-batch after the other, the costliest first; kNoRow fills
// them to `micro_batch_rows`. All workers have the same number. REQUIRES: rank < num_workers,
// micro_batch_rows >= 1
inline constexpr std::uint32_t kNoRow = ~std::uint32_t{0};
std::vector<std::uint32_t> micro_batches(std::span<const uint128> costs,
                                         std::uint32_t num_workers, std::uint32_t rank,
                                         std::uint32_t micro_batch_rows);

using Row = std::uint32_t;

// The rows and loads of takers, workers or micro-batches, while rows move between them.
class Takers {
 public:
  Takers(std::span<const uint128> costs, std::uint32_t num_takers, std::uint64_t most)
      : costs_(costs), most_(most), loads_(num_takers), rows_(num_takers) {
    for (std::uint32_t k = 0; k < num_takers; ++k) by_load_.emplace(0, k);
    for (const uint128 cost : costs) total_ += cost;
  }

  // The costliest first, each to the taker with the least load that has room.
  void deal() {
    auto taking = by_load_;
    for (const Row row : costliest_first(costs_)) {
      const std::uint32_t taker = taking.begin()->second;
      taking.erase(taking.begin());
      rows_[taker].push_back(row);
      change(taker, loads_[taker] + costs_[row]);
      if (rows_[taker].size() < most_) taking.emplace(loads_[taker], taker);
    }
  }

  // Exchanges rows so that the fullest becomes emptier. Returns true if that was needed and
  // possible.
  bool even() {
    const uint128 largest = by_load_.rbegin()->first;
    if (largest * loads_.size() * 256 <= total_ * 257) return false;
    const std::uint32_t fullest = by_load_.lower_bound({largest, 0})->second;
    std::uint32_t tried = 0;
    for (const auto& [load, taker] : by_load_) {
      if (tried++ == kTried || load == largest) return false;
      const std::optional<Exchange> best = best_between(fullest, taker);
      if (!best) continue;
      carry_out(*best, fullest, taker);
      return true;
    }
    return false;
  }

  std::vector<std::uint32_t> owners() const {
    std::vector<std::uint32_t> owner(costs_.size());
    for (std::uint32_t k = 0; k < rows_.size(); ++k) {
      for (const Row row : rows_[k]) owner[row] = k;
    }
    return owner;
  }

 private:
  static constexpr std::uint32_t kTried = 32;  // takers with the least load

  struct Exchange {
    Row given;
    Row taken;  // or kNoRow
  };

  uint128 cost_of(Row row) const { return row == kNoRow ? 0 : costs_[row]; }

  // The pair whose difference is below the gap and nearest to half of it; of equals the first
  // row given, then the first one taken, in descending order of cost.
  std::optional<Exchange> best_between(std::uint32_t giver, std::uint32_t taker) const {
    const uint128 gap = loads_[giver] - loads_[taker];
    std::vector<Row> back = rows_[taker];
    if (back.size() < most_) back.push_back(kNoRow);
    const auto first_below = [&](auto holds) {
      return std::ranges::partition_point(back, holds, [&](Row row) { return cost_of(row); });
    };
    std::optional<Exchange> best;
    uint128 nearest = gap;  // |2 difference - gap| of a difference in (0, gap) is below gap
    for (const Row given : rows_[giver]) {
      const uint128 twice = 2 * costs_[given];
      const auto consider = [&](Row taken) {
        const uint128 other = 2 * cost_of(taken) + gap;
        const uint128 distance = twice > other ? twice - other : other - twice;
        if (distance >= nearest) return;
        nearest = distance;
        best = {given, taken};
      };
      const auto below = first_below([&](uint128 cost) { return 2 * cost + gap > twice; });
      if (below != back.begin()) {
        const uint128 above = cost_of(*std::prev(below));
        consider(*first_below([&](uint128 cost) { return cost > above; }));
      }
      if (below != back.end()) consider(*below);
    }
    return best;
  }

  void carry_out(const Exchange& exchange, std::uint32_t giver, std::uint32_t taker) {
    const uint128 difference = costs_[exchange.given] - cost_of(exchange.taken);
    move(exchange.given, giver, taker);
    if (exchange.taken != kNoRow) move(exchange.taken, taker, giver);
    change(giver, loads_[giver] - difference);
    change(taker, loads_[taker] + difference);
  }

  // Lists stay in descending order of cost, of equals the first row first.
  void move(Row row, std::uint32_t from, std::uint32_t to) {
    const auto before = [&](Row left, Row right) {
      return costs_[left] != costs_[right] ? costs_[left] > costs_[right] : left < right;
    };
    rows_[from].erase(std::ranges::lower_bound(rows_[from], row, before));
    rows_[to].insert(std::ranges::lower_bound(rows_[to], row, before), row);
  }

  void change(std::uint32_t taker, uint128 load) {
    by_load_.erase({loads_[taker], taker});
    loads_[taker] = load;
    by_load_.emplace(load, taker);
  }

  std::span<const uint128> costs_;
  std::uint64_t most_;
  std::vector<uint128> loads_;
  std::vector<std::vector<Row>> rows_;
  std::set<std::pair<uint128, std::uint32_t>> by_load_;
  uint128 total_ = 0;
};

// The most rows of a worker, in whole micro-batches.
std::uint64_t most_rows(std::uint64_t num_rows, std::uint32_t num_workers,
                        std::uint32_t micro_batch_rows) {
  const std::uint64_t at_once = std::uint64_t{num_workers} * micro_batch_rows;
  return (num_rows + at_once - 1) / at_once * micro_batch_rows;
}

std::vector<Row> rows_of(std::span<const std::uint32_t> owner, std::uint32_t who) {
  std::vector<Row> rows;
  for (Row row = 0; row < owner.size(); ++row) {
    if (owner[row] == who) rows.push_back(row);
  }
  return rows;
}

// Rows dealt so that all workers, and all micro-batches of each, cost nearly the same:
// docs/layouts.md, section 12.
// The taker of each item by `costs`. None takes more than `most`; either no exchange between
// the taker with the largest load and those with the smallest ones would help, or that load is
// within 1/256 of the mean. REQUIRES: costs.size() <= num_takers * most
std::vector<std::uint32_t> deal_evenly(std::span<const uint128> costs, std::uint32_t num_takers,
                                       std::uint64_t most) {
  Takers takers(costs, num_takers, most);
  takers.deal();
  for (std::size_t done = 0; done < costs.size() && takers.even(); ++done) {
  }
  return takers.owners();
}

std::vector<std::uint32_t> micro_batches(std::span<const uint128> costs,
                                         std::uint32_t num_workers, std::uint32_t rank,
                                         std::uint32_t micro_batch_rows) {
  const std::uint64_t most = most_rows(costs.size(), num_workers, micro_batch_rows);
  const auto count = static_cast<std::uint32_t>(most / micro_batch_rows);
  const std::vector<Row> mine = rows_of(deal_evenly(costs, num_workers, most), rank);
  std::vector<uint128> my_costs(mine.size());
  std::ranges::transform(mine, my_costs.begin(), [&](Row row) { return costs[row]; });
  const std::vector<std::uint32_t> group = deal_evenly(my_costs, count, micro_batch_rows);

  std::vector<std::vector<Row>> groups(count);
  std::vector<uint128> loads(count);
  for (std::size_t j = 0; j < mine.size(); ++j) {
    groups[group[j]].push_back(mine[j]);
    loads[group[j]] += my_costs[j];
  }
  std::vector<Row> rows;
  rows.reserve(most);
  for (const std::uint32_t number : costliest_first(loads)) {
    rows.insert(rows.end(), groups[number].begin(), groups[number].end());
    rows.resize(rows.size() + micro_batch_rows - groups[number].size(), kNoRow);
  }
  return rows;
}

std::uint64_t divide_up(std::uint64_t count, std::uint64_t divisor) {
  return count / divisor + (count % divisor != 0 ? 1 : 0);
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

std::uint64_t PackedPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                                  std::uint64_t /*num_samples*/) const {
  return RowCursor::find(timeline_, packing_, sequence, sweep);
}

std::vector<std::uint64_t> PackedPlanner::sequences_in(std::uint64_t start, std::uint64_t stop,
                                                       std::uint64_t /*num_samples*/) const {
  PackedPlanner planner(timeline_, packing_, limit_);
  // The row that holds `start` begins at most a row before it.
  planner.seek(start - std::min<std::uint64_t>(start, packing_.row_length));
  return plan_sequences_in(planner, start, stop, 1);
}

std::uint64_t PackedPlanner::boundary(std::uint64_t time) const {
  return RowCursor::boundary(timeline_, packing_, time);
}

}  // namespace sweephand
