#include "compose/row_cursor.hpp"

#include "base/mix.hpp"
#include "compose/lane_rows.hpp"
#include "compose/part_rows.hpp"

#include <stdexcept>

namespace sweephand {
namespace {

// The timeline if its rows are of one lane each; else null. An order that is kept has one
// lane, whose rows are the same either way.
std::shared_ptr<const SweepTimeline> in_lanes(const std::shared_ptr<const Timeline>& timeline,
                                              const Packing& packing) {
  const bool shuffled = !timeline->settings().keeps_order();
  if (!packing.lanes_apart && shuffled) return nullptr;
  auto sweeps = timeline->in_lanes();
  if (sweeps == nullptr && shuffled)
    throw std::invalid_argument(
        "rows of a mixture are of all lanes: lanes='apart' is for one corpus");
  return sweeps;
}

}  // namespace

std::unique_ptr<RowCursor> RowCursor::open(const std::shared_ptr<const Timeline>& timeline,
                                           const Packing& packing, std::uint64_t time) {
  if (const auto sweeps = in_lanes(timeline, packing))
    return std::make_unique<LaneRows>(sweeps, packing, time);
  return std::make_unique<PartRows>(timeline, packing, time);
}

void RowCursor::check(const std::shared_ptr<const Timeline>& timeline, const Packing& packing) {
  in_lanes(timeline, packing);
}

std::uint64_t RowCursor::find(const std::shared_ptr<const Timeline>& timeline,
                              const Packing& packing, std::uint64_t sequence,
                              std::uint64_t sweep) {
  const auto sweeps = in_lanes(timeline, packing);
  if (sweeps == nullptr) return PartRows::find(timeline, packing, sequence, sweep);
  PackedSweep rows(*sweeps, packing, sweep);
  return checked_add(checked_mul(sweep, sweeps->num_samples()), rows.find(sequence));
}

std::uint64_t RowCursor::boundary(const std::shared_ptr<const Timeline>& timeline,
                                  const Packing& packing, std::uint64_t time) {
  const auto sweeps = in_lanes(timeline, packing);
  if (sweeps == nullptr) return PartRows::boundary(timeline, packing, time);
  const std::uint64_t left = time % sweeps->num_samples();
  return left == 0 ? time : checked_add(time, sweeps->num_samples() - left);
}

}  // namespace sweephand
