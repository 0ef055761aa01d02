#include "compose/row_cursor.hpp"

#include "base/mix.hpp"
#include "compose/lane_rows.hpp"
#include "compose/part_rows.hpp"

namespace sweephand {
namespace {

// An order that is kept has one lane, whose rows are the same either way.
bool in_lanes(const Timeline& timeline, const Packing& packing) {
  return packing.lanes_apart || !timeline.settings().randomize;
}

}  // namespace

std::unique_ptr<RowCursor> RowCursor::open(const std::shared_ptr<const Timeline>& timeline,
                                           const Packing& packing, std::uint64_t time) {
  if (in_lanes(*timeline, packing)) return std::make_unique<LaneRows>(timeline, packing, time);
  return std::make_unique<PartRows>(timeline, packing, time);
}

std::uint64_t RowCursor::find(const std::shared_ptr<const Timeline>& timeline,
                              const Packing& packing, std::uint64_t sequence,
                              std::uint64_t sweep) {
  if (!in_lanes(*timeline, packing)) {
    return PartRows::find(timeline, packing, sequence, sweep);
  }
  PackedSweep rows(*timeline, packing, sweep);
  return checked_add(checked_mul(sweep, timeline->num_samples()), rows.find(sequence));
}

}  // namespace sweephand
