#include "engine/batch.hpp"

namespace sweephand {

std::vector<std::uint64_t> sequence_numbers(const Batch& batch) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(batch.plan.share.size());
  for (const PlannedSequence& planned : batch.plan.share) numbers.push_back(planned.sequence);
  return numbers;
}

}  // namespace sweephand
