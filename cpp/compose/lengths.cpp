#include "compose/lengths.hpp"

#include "base/mix.hpp"
#include "compose/micro_batches.hpp"
#include "compose/share.hpp"

#include <algorithm>
#include <numeric>
#include <queue>
#include <utility>

namespace sweephand {
namespace {

using Numbers = std::vector<std::uint32_t>;

std::span<const std::uint32_t> members_of(const Rows& rows, std::size_t row) {
  const std::uint32_t begin = row == 0 ? 0 : rows.ends[row - 1];
  return std::span(rows.members).subspan(begin, rows.ends[row] - begin);
}

// The members of every group, ascending: rows of pieces, one a group.
Rows groups_as_rows(const Together& together) {
  Rows groups;
  groups.ends.resize(together.num_groups);
  for (const std::uint32_t group : together.group_of) ++groups.ends[group];
  std::partial_sum(groups.ends.begin(), groups.ends.end(), groups.ends.begin());
  groups.members.resize(together.group_of.size());
  for (std::size_t i = together.group_of.size(); i-- > 0;)
    groups.members[--groups.ends[together.group_of[i]]] = static_cast<std::uint32_t>(i);
  for (std::uint32_t g = 0; g + 1 < together.num_groups; ++g)
    groups.ends[g] = groups.ends[g + 1];
  if (!groups.ends.empty())
    groups.ends.back() = static_cast<std::uint32_t>(groups.members.size());
  return groups;
}

// Numbers of chosen places, in place of the places.
Rows renamed(Rows rows, std::span<const std::uint32_t> names) {
  for (std::uint32_t& member : rows.members) member = names[member];
  return rows;
}

// Rows whose members are themselves rows.
Rows joined(const Rows& rows, const Rows& inner) {
  Rows whole;
  whole.members.reserve(inner.members.size());
  for (std::size_t row = 0; row < rows.ends.size(); ++row) {
    for (const std::uint32_t member : members_of(rows, row)) {
      const auto its = members_of(inner, member);
      whole.members.insert(whole.members.end(), its.begin(), its.end());
    }
    whole.ends.push_back(static_cast<std::uint32_t>(whole.members.size()));
  }
  return whole;
}

Rows pack(std::span<const std::uint32_t> cells, const RowRule& rule,
          std::span<const Load> loads) {
  return rule.keeps_order ? pack_in_order_within(cells, rule.row_length, loads, rule.look_ahead)
                          : pack_largest_first_within(cells, rule.row_length, loads);
}

// Some of the items alone: their cells and loads.
class Chosen {
 public:
  Chosen(std::span<const std::uint32_t> places, std::span<const std::uint32_t> cells,
         std::span<const Load> loads)
      : cells_(taken(places, cells)) {
    for (const Load& load : loads) counts_.push_back(taken(places, load.counts));
    for (std::size_t i = 0; i < loads.size(); ++i)
      loads_.push_back({.counts = counts_[i], .limit = loads[i].limit});
  }

  std::span<const std::uint32_t> cells() const { return cells_; }
  std::span<const Load> loads() const { return loads_; }

 private:
  static Numbers taken(std::span<const std::uint32_t> places,
                       std::span<const std::uint32_t> all) {
    Numbers some(places.size());
    std::ranges::transform(places, some.begin(), [&](std::uint32_t i) { return all[i]; });
    return some;
  }

  Numbers cells_;
  std::vector<Numbers> counts_;
  std::vector<Load> loads_;
};

// Opens rows until there are `wanted`, or each has one member: the fullest of those with
// several gives every other one.
Rows opened(Rows rows, std::span<const std::uint32_t> cells, std::size_t wanted,
            bool keeps_order) {
  if (rows.ends.size() >= wanted) return rows;
  struct Row {
    Numbers members;
    std::uint64_t cells = 0;
  };
  std::vector<Row> all;
  using Fullest = std::pair<std::uint64_t, std::size_t>;  // the first of equals
  std::priority_queue<Fullest> fullest;
  const auto add = [&](std::size_t row) {
    all[row].cells = 0;
    for (const std::uint32_t i : all[row].members) all[row].cells += cells[i];
    if (all[row].members.size() > 1) fullest.emplace(all[row].cells, ~row);
  };
  for (std::size_t row = 0; row < rows.ends.size(); ++row) {
    const auto members = members_of(rows, row);
    all.push_back({.members = {members.begin(), members.end()}});
    add(row);
  }
  while (all.size() < wanted && !fullest.empty()) {
    const std::size_t giver = ~fullest.top().second;
    fullest.pop();
    Numbers kept;
    Row other;
    for (std::size_t i = 0; i < all[giver].members.size(); ++i)
      (i % 2 == 0 ? kept : other.members).push_back(all[giver].members[i]);
    all[giver].members = std::move(kept);
    all.push_back(std::move(other));
    add(giver);
    add(all.size() - 1);
  }
  if (keeps_order)
    std::ranges::sort(all, {}, [](const Row& row) { return row.members.front(); });
  Rows made;
  for (const Row& row : all) {
    made.members.insert(made.members.end(), row.members.begin(), row.members.end());
    made.ends.push_back(static_cast<std::uint32_t>(made.members.size()));
  }
  return made;
}

std::vector<uint128> costs_of(const Rows& rows, const LengthPieces& pieces, const Cost& cost) {
  std::vector<uint128> costs(rows.ends.size());
  for (std::size_t row = 0; row < costs.size(); ++row) {
    for (const std::uint32_t i : members_of(rows, row)) {
      costs[row] += cost.items.empty()
                        ? cost(pieces.sizes[i])
                        : cost.of(pieces.sequences[i], pieces.firsts[i], pieces.sizes[i]);
    }
  }
  return costs;
}

// Worker by worker: the groups are dealt by cost, and each worker's pieces packed alone.
WorkerRows rows_of_groups(const LengthPieces& pieces, const Together& together,
                          const RowRule& rule, std::span<const Load> loads,
                          std::uint32_t num_workers, const Cost& cost) {
  const Rows groups = groups_as_rows(together);
  const Numbers owner =
      deal_evenly(costs_of(groups, pieces, cost), num_workers, groups.ends.size());
  std::vector<Numbers> own(num_workers);
  for (std::uint32_t i = 0; i < pieces.count(); ++i)
    own[owner[together.group_of[i]]].push_back(i);
  WorkerRows made;
  for (std::uint32_t worker = 0; worker < num_workers; ++worker) {
    const Chosen chosen(own[worker], pieces.cells, loads);
    const Rows rows = renamed(pack(chosen.cells(), rule, chosen.loads()), own[worker]);
    for (std::size_t row = 0; row < rows.ends.size(); ++row) {
      const auto members = members_of(rows, row);
      made.rows.members.insert(made.rows.members.end(), members.begin(), members.end());
      made.rows.ends.push_back(static_cast<std::uint32_t>(made.rows.members.size()));
      made.owners.push_back(worker);
    }
  }
  return made;
}

// The rows of groups that are not cut.
Rows rows_of_whole_groups(const LengthPieces& pieces, const Together& together,
                          const RowRule& rule, std::span<const Load> loads,
                          std::size_t wanted) {
  const Rows groups = groups_as_rows(together);
  const auto summed = [&](std::span<const std::uint32_t> counts) {
    Numbers sums(groups.ends.size());
    for (std::size_t i = 0; i < counts.size(); ++i) sums[together.group_of[i]] += counts[i];
    return sums;
  };
  const Numbers cells = summed(pieces.cells);
  std::vector<Numbers> counts;
  for (const Load& load : loads) counts.push_back(summed(load.counts));
  std::vector<Load> sums;
  for (std::size_t i = 0; i < loads.size(); ++i)
    sums.push_back({.counts = counts[i], .limit = loads[i].limit});
  return joined(opened(pack(cells, rule, sums), cells, wanted, rule.keeps_order), groups);
}

// Takes out the emptiest rows, and returns their pieces.
Numbers take_leftovers(Rows& rows, const LengthPieces& pieces, const DealRule& dealing) {
  std::vector<std::uint64_t> cells(rows.ends.size());
  for (std::size_t row = 0; row < cells.size(); ++row) {
    for (const std::uint32_t i : members_of(rows, row)) cells[row] += pieces.cells[i];
  }
  Numbers fullest(cells.size());
  std::iota(fullest.begin(), fullest.end(), 0U);
  std::ranges::stable_sort(fullest, std::greater<>{}, [&](auto row) { return cells[row]; });
  const std::uint64_t num_kept =
      std::min(cells.size() / dealing.whole_rows * dealing.whole_rows, dealing.most_rows);
  std::vector<bool> is_kept(cells.size());
  for (std::size_t i = 0; i < num_kept; ++i) is_kept[fullest[i]] = true;
  Rows kept;
  Numbers left;
  for (std::size_t row = 0; row < cells.size(); ++row) {
    const auto members = members_of(rows, row);
    Numbers& to = is_kept[row] ? kept.members : left;
    to.insert(to.end(), members.begin(), members.end());
    if (is_kept[row]) kept.ends.push_back(static_cast<std::uint32_t>(kept.members.size()));
  }
  rows = std::move(kept);
  std::ranges::sort(left);
  return left;
}

}  // namespace

std::uint32_t WorkerRows::most() const {
  Numbers counts(rule.num_workers);
  for (const std::uint32_t owner : owners) ++counts[owner];
  return std::ranges::max(counts);
}

WorkerRows rows_of_workers(const LengthPieces& pieces, const Together& together,
                           const RowRule& rule, std::span<const Load> loads,
                           const DealRule& dealing) {
  const Cost cost = dealing.balance.value_or(Cost{});
  const std::uint32_t num_workers = dealing.num_workers;
  const std::uint32_t wanted = dealing.whole_rows == 0 ? num_workers : 0;
  WorkerRows made;
  if (!together.group_of.empty() && !together.in_row) {
    made = rows_of_groups(pieces, together, rule, loads, num_workers, cost);
  } else if (together.in_row) {
    made.rows = rows_of_whole_groups(pieces, together, rule, loads, wanted);
  } else {
    made.rows = opened(pack(pieces.cells, rule, loads), pieces.cells, wanted, rule.keeps_order);
  }
  made.rule = dealing;
  if (dealing.whole_rows != 0) made.left = take_leftovers(made.rows, pieces, dealing);
  made.costs = costs_of(made.rows, pieces, cost);
  const std::size_t num_rows = made.costs.size();
  if (made.owners.size() == num_rows) return made;
  if (dealing.balance) {
    const std::uint64_t at_once = std::uint64_t{num_workers} * dealing.micro_batch_rows;
    made.owners = deal_evenly(made.costs, num_workers,
                              divide_up(num_rows, at_once) * dealing.micro_batch_rows);
    return made;
  }
  made.owners.resize(num_rows);
  for (std::size_t j = 0; j < num_rows; ++j)
    made.owners[j] = static_cast<std::uint32_t>(j % num_workers);
  return made;
}

LaidPieces lay(const WorkerRows& workers, std::uint32_t num_micro_batches) {
  const std::uint32_t together = workers.rule.micro_batch_rows;
  std::vector<Numbers> own(workers.rule.num_workers);
  for (std::uint32_t row = 0; row < workers.owners.size(); ++row)
    own[workers.owners[row]].push_back(row);
  LaidPieces laid;
  laid.pieces.reserve(workers.rows.members.size());
  laid.ends.reserve(std::size_t{num_micro_batches} * together * own.size());
  for (Numbers& rows : own) {
    if (workers.rule.balance) {
      std::vector<uint128> costs(rows.size());
      std::ranges::transform(rows, costs.begin(), [&](auto row) { return workers.costs[row]; });
      Numbers slots = grouped(costs, num_micro_batches, together);
      for (std::uint32_t& slot : slots) slot = slot == kNoRow ? kNoRow : rows[slot];
      rows = std::move(slots);
    }
    rows.resize(std::size_t{num_micro_batches} * together, kNoRow);
    for (std::size_t slot = 0; slot < rows.size(); ++slot) {
      if (slot % together == 0) laid.loads.push_back(0);
      if (rows[slot] != kNoRow) {
        const auto members = members_of(workers.rows, rows[slot]);
        laid.pieces.insert(laid.pieces.end(), members.begin(), members.end());
        laid.loads.back() += static_cast<double>(workers.costs[rows[slot]]);
      }
      laid.ends.push_back(static_cast<std::uint32_t>(laid.pieces.size()));
    }
  }
  return laid;
}

Plan plan_of(const MicroBatch& micro_batch, const Request& request, const PieceCount& counted,
             std::uint64_t global_rows) {
  Plan plan;
  plan.request = request;
  plan.num_samples = counted.samples;
  plan.num_sequences = counted.pieces;
  plan.counted = counted;
  plan.num_rows = micro_batch.num_rows;
  plan.row_length = micro_batch.row_length;
  plan.global_rows = global_rows;
  for (std::size_t j = 0; j < micro_batch.sequences.size(); ++j) {
    plan.share.push_back({.sequence = micro_batch.sequences[j],
                          .size = micro_batch.sizes[j],
                          .lane = 0,
                          .sweep = 0});
  }
  plan.cells.assign(micro_batch.cells.begin(), micro_batch.cells.end());
  return plan;
}

}  // namespace sweephand
