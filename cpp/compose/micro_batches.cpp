#include "compose/micro_batches.hpp"

#include "compose/share.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <utility>

namespace sweephand {
namespace {

using Row = std::uint32_t;

// The rows and loads of takers, workers or micro-batches, while rows move between them.
class Takers {
 public:
  Takers(std::span<const uint128> costs, std::uint32_t num_takers, std::uint64_t most,
         std::span<const uint128> before)
      : costs_(costs),
        most_(most),
        loads_(before.begin(), before.end()),
        rows_(num_takers),
        total_(std::accumulate(before.begin(), before.end(), uint128{0})) {
    loads_.resize(num_takers);
    for (const uint128 cost : costs) total_ += cost;
  }

  // The costliest first, each to the taker with the least load that has room.
  void deal() {
    using Load = std::pair<uint128, std::uint32_t>;
    std::priority_queue<Load, std::vector<Load>, std::greater<>> taking;
    for (std::uint32_t k = 0; k < rows_.size(); ++k) taking.emplace(loads_[k], k);
    for (const Row row : costliest_first(costs_)) {
      const std::uint32_t taker = taking.top().second;
      taking.pop();
      rows_[taker].push_back(row);
      loads_[taker] += costs_[row];
      if (rows_[taker].size() < most_) taking.emplace(loads_[taker], taker);
    }
    for (std::uint32_t k = 0; k < rows_.size(); ++k) by_load_.emplace(loads_[k], k);
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
  uint128 total_;
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

}  // namespace

std::vector<std::uint32_t> deal_evenly(std::span<const uint128> costs, std::uint32_t num_takers,
                                       std::uint64_t most, std::span<const uint128> before) {
  Takers takers(costs, num_takers, most, before);
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
  std::vector<Row> rows = grouped(my_costs, count, micro_batch_rows);
  for (Row& row : rows) row = row == kNoRow ? kNoRow : mine[row];
  return rows;
}

std::vector<std::uint32_t> grouped(std::span<const uint128> costs, std::uint32_t count,
                                   std::uint32_t micro_batch_rows) {
  if (micro_batch_rows == 1) {  // as dealing would, without takers that have one row each
    std::vector<Row> rows = costliest_first(costs);
    rows.resize(count, kNoRow);
    return rows;
  }
  const std::vector<std::uint32_t> group = deal_evenly(costs, count, micro_batch_rows);
  std::vector<std::vector<Row>> groups(count);
  std::vector<uint128> loads(count);
  for (Row row = 0; row < costs.size(); ++row) {
    groups[group[row]].push_back(row);
    loads[group[row]] += costs[row];
  }
  std::vector<Row> rows;
  rows.reserve(std::size_t{count} * micro_batch_rows);
  for (const std::uint32_t number : costliest_first(loads)) {
    rows.insert(rows.end(), groups[number].begin(), groups[number].end());
    rows.resize(rows.size() + micro_batch_rows - groups[number].size(), kNoRow);
  }
  return rows;
}

}  // namespace sweephand
