#include "order/timeline.hpp"

namespace sweephand {

std::vector<std::uint64_t> sequences_between(const Timeline& timeline, std::uint64_t start,
                                             std::uint64_t stop) {
  std::vector<std::uint64_t> numbers;
  const std::unique_ptr<Cursor> cursor = timeline.cursor(start);
  while (cursor->time() < stop) {
    if (cursor->sweep_done()) cursor->enter_next_sweep();
    const PlannedSequence& front = cursor->ahead().front();
    numbers.push_back(front.sequence);
    cursor->pop(1, front.size);
  }
  return numbers;
}

}  // namespace sweephand
