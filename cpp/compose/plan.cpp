#include "compose/plan.hpp"

namespace sweephand {

std::vector<std::uint64_t> sequence_numbers(const Plan& plan) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) numbers.push_back(planned.sequence);
  return numbers;
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

std::vector<std::uint32_t> cell_table(const Plan& plan) {
  std::vector<std::uint32_t> table;
  table.reserve(4 * plan.cells.size());
  for (const Cell& cell : plan.cells) {
    table.insert(table.end(), {cell.row, cell.column, cell.first, cell.whole});
  }
  return table;
}

}  // namespace sweephand
