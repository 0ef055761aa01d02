#include "compose/even_counts.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>

namespace sweephand {
namespace {

std::vector<std::uint64_t> equal_counts(std::size_t count, std::uint32_t num_workers) {
  std::vector<std::uint64_t> wanted(num_workers, count / num_workers);
  for (std::size_t k = 0; k < count % num_workers; ++k) ++wanted[k];
  return wanted;
}

// Workers with too many give their last sequences, lowest rank first.
void even_counts_in_turn(std::vector<std::uint32_t>& owner, std::uint32_t num_workers) {
  std::vector<std::uint64_t> wanted = equal_counts(owner.size(), num_workers);
  std::vector<std::size_t> surplus;
  for (std::size_t j = 0; j < owner.size(); ++j) {
    if (wanted[owner[j]] == 0) {
      surplus.push_back(j);
    } else {
      --wanted[owner[j]];
    }
  }
  std::uint32_t taker = 0;
  for (const std::size_t j : surplus) {
    while (wanted[taker] == 0) ++taker;
    owner[j] = taker;
    --wanted[taker];
  }
}

// The workers in the order in which each takes from the next: those that get more first.
std::vector<std::uint32_t> workers_in_line(std::size_t count, std::uint32_t num_workers,
                                           const ShareRule& rule) {
  std::vector<std::uint32_t> line(num_workers);
  std::iota(line.begin(), line.end(), 0U);
  const auto get_more = static_cast<std::ptrdiff_t>(count % num_workers);
  if (!rule.first_half && rule.num_lanes % num_workers == 0)
    std::reverse(line.begin() + get_more, line.end());
  return line;
}

// The numbers below `count`, each far from those before it: 0, then the middle, then the
// quarters, ...
std::vector<std::uint32_t> spread(std::uint32_t count) {
  std::vector<std::uint32_t> numbers;
  numbers.reserve(count);
  std::vector<bool> is_known(count);
  const auto bits = static_cast<unsigned>(std::bit_width(count - 1));
  for (std::uint64_t i = 0; i < std::uint64_t{1} << bits; ++i) {
    std::uint64_t reversed = 0;
    for (unsigned bit = 0; bit < bits; ++bit) reversed |= (i >> bit & 1) << (bits - 1 - bit);
    const std::uint64_t number = reversed * count >> bits;
    if (!is_known[number]) numbers.push_back(static_cast<std::uint32_t>(number));
    is_known[number] = true;
  }
  return numbers;
}

// The lanes of each worker, in the order of `line`; those that it gives from come first.
std::vector<std::uint32_t> lanes_in_line(std::span<const std::uint32_t> line,
                                         std::uint32_t num_lanes) {
  const auto num_workers = static_cast<std::uint32_t>(line.size());
  std::vector<std::uint32_t> lanes;
  lanes.reserve(num_lanes);
  for (const std::uint32_t worker : line) {
    if (worker >= num_lanes) continue;
    const std::uint32_t count = (num_lanes - worker - 1) / num_workers + 1;
    for (const std::uint32_t number : spread(count))
      lanes.push_back(worker + (count - 1 - number) * num_workers);
  }
  return lanes;
}

// All sequences are in one line, lane after lane, and each worker takes the next: where shares
// are not even, neighbours in line have a lane in common, the same from minibatch to minibatch.
void even_counts_by_lanes(std::span<const PlannedSequence> minibatch,
                          std::vector<std::uint32_t>& owner, std::uint32_t num_workers,
                          const ShareRule& rule) {
  const std::vector<std::uint64_t> wanted = equal_counts(owner.size(), num_workers);
  std::vector<std::uint64_t> found(num_workers);
  for (const std::uint32_t worker : owner) ++found[worker];
  if (found == wanted) return;
  struct Lane {
    std::uint64_t size = 0;
    std::uint64_t next = 0;  // place in line of its next sequence, the last one first
    std::size_t taker = 0;   // place in line of the worker that takes it
  };
  std::vector<Lane> lanes(rule.num_lanes);
  for (const PlannedSequence& one : minibatch) ++lanes[one.lane].size;
  const std::vector<std::uint32_t> line = workers_in_line(owner.size(), num_workers, rule);
  std::vector<std::uint64_t> ends(num_workers);
  std::transform(line.begin(), line.end(), ends.begin(), [&](auto k) { return wanted[k]; });
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::uint64_t place = 0;
  std::size_t taker = 0;
  for (const std::uint32_t number : lanes_in_line(line, rule.num_lanes)) {
    while (taker + 1 < num_workers && ends[taker] <= place) ++taker;
    lanes[number].next = place;
    lanes[number].taker = taker;
    place += lanes[number].size;
  }
  for (std::size_t j = owner.size(); j-- > 0;) {
    Lane& lane = lanes[minibatch[j].lane];
    while (ends[lane.taker] <= lane.next) ++lane.taker;
    owner[j] = line[lane.taker];
    ++lane.next;
  }
}

// With fewer than three lanes for two workers, a common lane is most of what a worker has.
bool has_common_lanes(std::uint32_t num_workers, const ShareRule& rule) {
  return std::uint64_t{2} * rule.num_lanes >= std::uint64_t{3} * num_workers;
}

}  // namespace

void even_counts(std::span<const PlannedSequence> minibatch, std::vector<std::uint32_t>& owner,
                 std::uint32_t num_workers, const ShareRule& rule) {
  if (has_common_lanes(num_workers, rule)) {
    even_counts_by_lanes(minibatch, owner, num_workers, rule);
  } else {
    even_counts_in_turn(owner, num_workers);
  }
}

}  // namespace sweephand
