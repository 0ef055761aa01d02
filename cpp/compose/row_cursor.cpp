#include "compose/row_cursor.hpp"

#include "base/mix.hpp"
#include "compose/ordered_rows.hpp"
#include "compose/part_rows.hpp"

namespace sweephand {
namespace {

// The timeline if its order is kept, in rows of neighbours; else null.
std::shared_ptr<const SweepTimeline> kept(const std::shared_ptr<const Timeline>& timeline) {
  return timeline->settings().randomize ? nullptr : timeline->in_lanes();
}

}  // namespace

std::unique_ptr<RowCursor> RowCursor::open(const std::shared_ptr<const Timeline>& timeline,
                                           const Packing& packing, std::uint64_t time) {
  if (const auto sweeps = kept(timeline))
    return std::make_unique<OrderedRows>(sweeps, packing, time);
  return std::make_unique<PartRows>(timeline, packing, time);
}

std::uint64_t RowCursor::find(const std::shared_ptr<const Timeline>& timeline,
                              const Packing& packing, std::uint64_t sequence,
                              std::uint64_t sweep) {
  const auto sweeps = kept(timeline);
  if (sweeps == nullptr) return PartRows::find(timeline, packing, sequence, sweep);
  return checked_add(checked_mul(sweep, sweeps->num_samples()),
                     OrderedRows::find(*sweeps, packing, sequence, sweep));
}

std::uint64_t RowCursor::boundary(const std::shared_ptr<const Timeline>& timeline,
                                  const Packing& packing, std::uint64_t time) {
  const auto sweeps = kept(timeline);
  if (sweeps == nullptr) return PartRows::boundary(timeline, packing, time);
  const std::uint64_t left = time % sweeps->num_samples();
  return left == 0 ? time : checked_add(time, sweeps->num_samples() - left);
}

}  // namespace sweephand
