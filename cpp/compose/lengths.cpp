#include "compose/lengths.hpp"

#include "base/mix.hpp"
#include "compose/micro_batches.hpp"
#include "compose/planner.hpp"
#include "compose/share.hpp"

#include <algorithm>
#include <functional>
#include <map>
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

void append(Rows& rows, std::span<const std::uint32_t> members) {
  rows.members.insert(rows.members.end(), members.begin(), members.end());
  rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
}

// The members of every group, ascending, in the order of their first ones: rows, one a group.
Rows groups_as_rows(std::span<const std::uint32_t> group_of) {
  std::vector<Numbers> members(group_of.empty() ? 0
                                                : std::size_t{std::ranges::max(group_of)} + 1);
  Numbers in_order;
  for (std::uint32_t i = 0; i < group_of.size(); ++i) {
    if (members[group_of[i]].empty()) in_order.push_back(group_of[i]);
    members[group_of[i]].push_back(i);
  }
  Rows groups;
  for (const std::uint32_t group : in_order) append(groups, members[group]);
  return groups;
}

// The bits that any of the members has.
std::uint32_t marks_of(std::span<const std::uint32_t> members,
                       std::span<const std::uint32_t> marks) {
  if (marks.empty()) return 0;
  return std::accumulate(members.begin(), members.end(), 0U,
                         [&](std::uint32_t all, std::uint32_t i) { return all | marks[i]; });
}

Numbers marks_of_rows(const Rows& rows, std::span<const std::uint32_t> marks) {
  Numbers found(rows.ends.size());
  for (std::size_t row = 0; row < found.size(); ++row)
    found[row] = marks_of(members_of(rows, row), marks);
  return found;
}

// The numbers of items with equal marks, those without any last.
std::map<std::uint32_t, Numbers, std::greater<>> by_marks(
    std::span<const std::uint32_t> marks) {
  std::map<std::uint32_t, Numbers, std::greater<>> found;
  for (std::uint32_t i = 0; i < marks.size(); ++i) found[marks[i]].push_back(i);
  return found;
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

// What is packed: pieces, or groups of them that are not cut.
struct Items {
  std::span<const std::uint32_t> cells;
  std::span<const std::uint32_t> marks;
  std::span<const Load> loads;
};

// The items of each row, taken together as one.
class Summed {
 public:
  Summed(const Rows& rows, const Items& items) : cells_(summed(rows, items.cells)) {
    if (!items.marks.empty()) marks_ = marks_of_rows(rows, items.marks);
    for (const Load& load : items.loads) counts_.push_back(summed(rows, load.counts));
    for (std::size_t i = 0; i < counts_.size(); ++i)
      loads_.push_back({.counts = counts_[i], .limit = items.loads[i].limit});
  }

  Items items() const { return {cells_, marks_, loads_}; }

 private:
  static Numbers summed(const Rows& rows, std::span<const std::uint32_t> counts) {
    Numbers sums(rows.ends.size());
    for (std::size_t row = 0; row < sums.size(); ++row)
      for (const std::uint32_t i : members_of(rows, row)) sums[row] += counts[i];
    return sums;
  }

  Numbers cells_;
  Numbers marks_;
  std::vector<Numbers> counts_;
  std::vector<Load> loads_;
};

// Rows as wide as their widest member, in the order of the list or the widest first.
Rows pad(std::span<const std::uint32_t> cells, const RowRule& rule) {
  struct Open {
    Numbers members;
    std::uint64_t width = 0;
  };
  Numbers order(cells.size());
  std::iota(order.begin(), order.end(), 0U);
  if (!rule.keeps_order)
    std::ranges::stable_sort(order, std::greater<>{}, [&](auto i) { return cells[i]; });
  std::map<std::uint32_t, Open> open;  // by width, where that is the same in a row
  std::vector<Numbers> closed;
  for (const std::uint32_t i : order) {
    auto& [members, width] = open[rule.width == Width::kEqual ? cells[i] : 0];
    width = std::max<std::uint64_t>(width, cells[i]);
    if (width * (members.size() + 1) > rule.row_length) {
      closed.push_back(std::exchange(members, {}));
      width = cells[i];
    }
    members.push_back(i);
  }
  for (auto& [_, last] : open) closed.push_back(std::move(last.members));
  for (Numbers& members : closed) std::ranges::sort(members);
  if (rule.keeps_order)
    std::ranges::sort(closed, {}, [](const Numbers& row) { return row.front(); });
  Rows rows;
  for (const Numbers& members : closed) append(rows, members);
  return rows;
}

Rows pack(const Items& items, const RowRule& rule) {
  const auto& [cells, marks, loads] = items;
  if (rule.width != Width::kOwn) return pad(cells, rule);
  return sweephand::pack({.sizes = cells, .loads = loads},
                         rule.keeps_order ? Fill::kInOrder : Fill::kLongestFirst,
                         rule.row_length, rule.look_ahead);
}

// Opens rows until there are `wanted`, or none can be divided: the fullest of those with
// several members gives every other one of equal marks, if both rows then have its marks.
Rows opened(Rows rows, std::span<const std::uint32_t> cells,
            std::span<const std::uint32_t> marks, std::size_t wanted, bool keeps_order) {
  if (rows.ends.size() >= wanted) return rows;
  std::vector<Numbers> all;
  using Fullest = std::pair<std::uint64_t, std::size_t>;  // the first of equals
  std::priority_queue<Fullest> fullest;
  const auto add = [&](std::size_t row) {
    std::uint64_t sum = 0;
    for (const std::uint32_t i : all[row]) sum += cells[i];
    if (all[row].size() > 1) fullest.emplace(sum, ~row);
  };
  for (std::size_t row = 0; row < rows.ends.size(); ++row) {
    const auto members = members_of(rows, row);
    all.emplace_back(members.begin(), members.end());
    add(row);
  }
  while (all.size() < wanted && !fullest.empty()) {
    const std::size_t giver = ~fullest.top().second;
    fullest.pop();
    Numbers kept;
    Numbers given;
    std::map<std::uint32_t, std::size_t> seen;
    for (const std::uint32_t i : all[giver])
      (seen[marks.empty() ? 0 : marks[i]]++ % 2 == 0 ? kept : given).push_back(i);
    if (marks_of(kept, marks) != marks_of(given, marks)) continue;
    all[giver] = std::move(kept);
    all.push_back(std::move(given));
    add(giver);
    add(all.size() - 1);
  }
  if (keeps_order) std::ranges::sort(all, {}, [](const Numbers& row) { return row.front(); });
  Rows made;
  for (const Numbers& members : all) append(made, members);
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

std::vector<uint128> costs_at(const Numbers& places, const std::vector<uint128>& costs) {
  std::vector<uint128> some(places.size());
  std::ranges::transform(places, some.begin(), [&](auto place) { return costs[place]; });
  return some;
}

// Worker by worker: the groups are dealt by cost, and each worker's pieces packed alone.
// Returns the worker of each row.
Numbers pack_groups(WorkerRows& made, const LengthPieces& pieces, const Rows& groups,
                    const Items& items, const RowRule& rule, const Cost& cost) {
  const std::uint32_t num_workers = made.rule.num_workers;
  const std::vector<uint128> costs = costs_of(groups, pieces, cost);
  std::vector<Numbers> own(num_workers);
  std::vector<uint128> sums(num_workers);
  for (const auto& [_, alike] : by_marks(marks_of_rows(groups, pieces.marks))) {
    const std::vector<uint128> some = costs_at(alike, costs);
    const Numbers owner = deal_evenly(some, num_workers, some.size(), sums);
    for (std::size_t i = 0; i < some.size(); ++i) {
      const auto members = members_of(groups, alike[i]);
      own[owner[i]].insert(own[owner[i]].end(), members.begin(), members.end());
      sums[owner[i]] += some[i];
    }
  }
  Numbers owners;
  for (std::uint32_t worker = 0; worker < num_workers; ++worker) {
    std::ranges::sort(own[worker]);
    Rows alone;
    for (const std::uint32_t i : own[worker]) append(alone, {&i, 1});
    const Rows rows = joined(pack(Summed(alone, items).items(), rule), alone);
    for (std::size_t row = 0; row < rows.ends.size(); ++row) {
      append(made.rows, members_of(rows, row));
      owners.push_back(worker);
    }
  }
  return owners;
}

// Opens rows of equal marks until all workers can have as many micro-batches of them.
void align(WorkerRows& made, Numbers& owners, const Items& items, bool keeps_order) {
  const bool is_dealt = !owners.empty();
  const std::uint32_t sharers = is_dealt ? 1 : made.rule.num_workers;
  Rows rows;
  Numbers owners_of_rows;
  for (const auto& [mark, alike] : by_marks(marks_of_rows(made.rows, items.marks))) {
    std::map<std::uint32_t, Rows> owned;
    for (const std::uint32_t row : alike)
      append(owned[is_dealt ? owners[row] : 0], members_of(made.rows, row));
    std::uint64_t most = 0;
    for (const auto& [_, own] : owned) most = std::max<std::uint64_t>(most, own.ends.size());
    const std::uint64_t wanted =
        divide_up(most, std::uint64_t{sharers} * made.rule.micro_batch_rows) * sharers;
    for (const auto& [owner, own] : owned) {
      const Rows more =
          opened(own, items.cells, items.marks, mark == 0 ? 0 : wanted, keeps_order);
      for (std::size_t row = 0; row < more.ends.size(); ++row) {
        append(rows, members_of(more, row));
        if (is_dealt) owners_of_rows.push_back(owner);
      }
    }
  }
  made.rows = std::move(rows);
  owners = std::move(owners_of_rows);
}

// The worker of each row.
Numbers dealt(const WorkerRows& made) {
  const auto& [num_workers, together, balance, whole_rows, most_rows] = made.rule;
  Numbers owners(made.costs.size());
  if (!balance) {
    std::uint32_t next = 0;
    for (const auto& [_, alike] : by_marks(made.marks))
      for (const std::uint32_t row : alike) owners[row] = next++ % num_workers;
    return owners;
  }
  std::vector<uint128> loads(num_workers);
  for (const auto& [mark, alike] : by_marks(made.marks)) {
    const std::vector<uint128> costs = costs_at(alike, made.costs);
    const auto count = static_cast<std::uint32_t>(
        divide_up(costs.size(), std::uint64_t{num_workers} * together));
    Numbers owner;
    if (mark == 0) {
      owner = deal_evenly(costs, num_workers, std::uint64_t{count} * together, loads);
    } else {  // micro-batches, so that every worker has as many
      owner = deal_evenly(costs, num_workers * count, together);
      std::vector<uint128> sums(std::size_t{num_workers} * count);
      for (std::size_t i = 0; i < costs.size(); ++i) sums[owner[i]] += costs[i];
      const Numbers taker = deal_evenly(sums, num_workers, count, loads);
      for (std::uint32_t& one : owner) one = taker[one];
    }
    for (std::size_t i = 0; i < costs.size(); ++i) {
      owners[alike[i]] = owner[i];
      loads[owner[i]] += costs[i];
    }
  }
  return owners;
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

// Slots of micro-batches that cost nearly the same, none empty while rows are enough.
Numbers balanced(const Numbers& rows, std::size_t count, const WorkerRows& made) {
  Numbers slots = grouped(costs_at(rows, made.costs), static_cast<std::uint32_t>(count),
                          made.rule.micro_batch_rows);
  for (std::uint32_t& slot : slots) slot = slot == kNoRow ? kNoRow : rows[slot];
  return slots;
}

// Gives rows to workers: those with equal marks in as many micro-batches at each.
void give(WorkerRows& made, const Numbers& owners) {
  const std::size_t together = made.rule.micro_batch_rows;
  made.common.resize(made.rule.num_workers);
  made.others.resize(made.rule.num_workers);
  for (const auto& [mark, alike] : by_marks(made.marks)) {
    std::vector<Numbers> own(made.rule.num_workers);
    for (const std::uint32_t row : alike) own[owners[row]].push_back(row);
    const auto [least, most] = std::ranges::minmax(own, {}, &Numbers::size);
    const std::size_t count =
        mark == 0 ? 0 : std::min<std::size_t>(least.size(), divide_up(most.size(), together));
    for (std::size_t worker = 0; worker < own.size(); ++worker) {
      Numbers& rows = own[worker];
      const std::size_t num_common = std::min(rows.size(), count * together);
      made.others[worker].insert(made.others[worker].end(), rows.begin() + num_common,
                                 rows.end());
      rows.resize(num_common);
      const Numbers slots = balanced(rows, count, made);
      made.common[worker].insert(made.common[worker].end(), slots.begin(), slots.end());
    }
  }
}

}  // namespace

std::uint32_t WorkerRows::num_micro_batches() const {
  const std::size_t most = std::ranges::max(others, {}, &Numbers::size).size();
  return static_cast<std::uint32_t>(divide_up(common[0].size() + most, rule.micro_batch_rows));
}

WorkerRows rows_of_workers(const LengthPieces& pieces, const Together& together,
                           const RowRule& rule, std::span<const Load> loads,
                           const DealRule& dealing) {
  const Cost cost = dealing.balance.value_or(Cost{});
  const std::uint32_t wanted = dealing.whole_rows == 0 ? dealing.num_workers : 0;
  const Rows groups = groups_as_rows(together.group_of);
  const Items single{pieces.cells, pieces.marks, loads};
  std::optional<Summed> summed;
  if (together.in_row) summed.emplace(groups, single);
  const Items items = summed ? summed->items() : single;
  WorkerRows made{.rule = dealing};
  Numbers owners;
  if (!groups.ends.empty() && !summed) {
    owners = pack_groups(made, pieces, groups, items, rule, cost);
  } else {
    made.rows = opened(pack(items, rule), items.cells, {}, wanted, rule.keeps_order);
  }
  if (!items.marks.empty()) align(made, owners, items, rule.keeps_order);
  if (summed) made.rows = joined(made.rows, groups);
  if (dealing.whole_rows != 0) made.left = take_leftovers(made.rows, pieces, dealing);
  made.costs = costs_of(made.rows, pieces, cost);
  made.marks = marks_of_rows(made.rows, pieces.marks);
  give(made, owners.empty() ? dealt(made) : owners);
  return made;
}

LaidPieces lay(const WorkerRows& workers, std::uint32_t num_micro_batches) {
  const std::uint32_t together = workers.rule.micro_batch_rows;
  LaidPieces laid;
  laid.pieces.reserve(workers.rows.members.size());
  laid.ends.reserve(std::size_t{num_micro_batches} * together * workers.rule.num_workers);
  for (std::size_t worker = 0; worker < workers.rule.num_workers; ++worker) {
    Numbers slots = workers.common[worker];
    const Numbers& others = workers.others[worker];
    const Numbers last =
        workers.rule.balance
            ? balanced(others, num_micro_batches - slots.size() / together, workers)
            : others;
    slots.insert(slots.end(), last.begin(), last.end());
    slots.resize(std::size_t{num_micro_batches} * together, kNoRow);
    for (std::size_t slot = 0; slot < slots.size(); ++slot) {
      if (slot % together == 0) laid.loads.push_back(0);
      if (slots[slot] != kNoRow) {
        const auto members = members_of(workers.rows, slots[slot]);
        laid.pieces.insert(laid.pieces.end(), members.begin(), members.end());
        laid.loads.back() += static_cast<double>(workers.costs[slots[slot]]);
      }
      laid.ends.push_back(static_cast<std::uint32_t>(laid.pieces.size()));
    }
  }
  return laid;
}

PieceCount count_pieces(const PlacedPieces& pieces, const LossMasks* masks) {
  PieceCounter counter(nullptr, masks, 0);
  for (std::size_t j = 0; j < pieces.sizes.size(); ++j) {
    const std::uint64_t end = std::uint64_t{pieces.firsts[j]} + pieces.sizes[j];
    counter.add(pieces.sequences[j], pieces.firsts[j], pieces.sizes[j],
                end == pieces.wholes[j]);
  }
  return counter.count();
}

Plan plan_of(const PlacedPieces& pieces, const Request& request, const PieceCount& counted,
             std::uint32_t num_rows, std::uint32_t row_length, std::uint64_t global_rows) {
  Plan plan;
  plan.request = request;
  plan.num_samples = counted.samples;
  plan.num_sequences = counted.pieces;
  plan.counted = counted;
  plan.num_rows = num_rows;
  plan.row_length = row_length;
  plan.global_rows = global_rows;
  for (std::size_t j = 0; j < pieces.sequences.size(); ++j) {
    plan.share.push_back({.sequence = pieces.sequences[j], .size = pieces.sizes[j]});
    if (pieces.cells.empty()) continue;
    plan.cells.push_back({.row = pieces.cells[2 * j],
                          .column = pieces.cells[2 * j + 1],
                          .first = pieces.firsts[j],
                          .whole = pieces.wholes[j]});
  }
  return plan;
}

}  // namespace sweephand
