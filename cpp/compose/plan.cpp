#include "compose/plan.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMostSweeps = std::numeric_limits<std::uint16_t>::max();

}  // namespace

Plan joined(std::span<const Plan* const> plans) {
  if (plans.empty()) return {.end_of_data = true};
  Plan all{.nominal_time = plans.front()->nominal_time,
           .sweep = plans.front()->sweep,
           .next = plans.back()->next,
           .begin = plans.front()->begin,
           .request = plans.front()->request};
  for (const Plan* plan : plans) {
    all.num_samples += plan->num_samples;
    all.num_sequences += plan->num_sequences;
    all.counted += plan->counted;
    all.sweeps_ended += plan->sweeps_ended;
    for (PlannedSequence one : plan->share) {
      one.sweep = sweeps_behind(plan->sweep + one.sweep, all);
      all.share.push_back(one);
    }
    all.blocks.insert(all.blocks.end(), plan->blocks.begin(), plan->blocks.end());
  }
  return all;
}

std::vector<std::uint64_t> sequence_numbers(const Plan& plan) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) numbers.push_back(planned.sequence);
  return numbers;
}

std::uint16_t sweeps_behind(std::uint64_t sweep, const Plan& plan) noexcept {
  return static_cast<std::uint16_t>(std::min(sweep - plan.sweep, kMostSweeps));
}

std::vector<std::uint64_t> sweeps(const Plan& plan) {
  std::vector<std::uint64_t> found;
  found.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) {
    if (planned.sweep == kMostSweeps)
      throw std::invalid_argument("the minibatch takes from " + std::to_string(kMostSweeps) +
                                  " sweeps or more, and maps want to know each; ask for a "
                                  "smaller one");
    found.push_back(plan.sweep + planned.sweep);
  }
  return found;
}

std::vector<std::uint32_t> sequence_sizes(const Plan& plan) {
  std::vector<std::uint32_t> sizes;
  sizes.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) sizes.push_back(planned.size);
  return sizes;
}

std::uint64_t count_samples(const Plan& plan) {
  std::uint64_t count = 0;
  for (const PlannedSequence& planned : plan.share) count += planned.size;
  return count;
}

std::uint64_t count_ends(const Plan& plan) {
  std::uint64_t count = plan.share.size();
  for (std::size_t j = 0; j < plan.cells.size(); ++j) count -= plan.goes_on(j) ? 1 : 0;
  return count;
}

std::vector<std::uint32_t> cell_table(const Plan& plan) {
  std::vector<std::uint32_t> table;
  table.reserve(4 * plan.cells.size());
  for (const Cell& cell : plan.cells) {
    table.insert(table.end(), {cell.row, cell.column, cell.first, cell.whole});
  }
  return table;
}

}  // namespace sweephand
