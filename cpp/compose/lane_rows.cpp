#include "compose/lane_rows.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <functional>

namespace sweephand {

LaneRows::LaneRows(std::shared_ptr<const SweepTimeline> timeline, const Packing& packing,
                   std::uint64_t time)
    : timeline_(std::move(timeline)),
      packing_(packing),
      sweep_(*timeline_, packing, time / timeline_->num_samples()),
      lanes_(sweep_.num_lanes()) {
  open_sweep(sweep_.offset_at(time % timeline_->num_samples()));
  while (time_ < time && !sweep_done()) pop();
}

void LaneRows::open_sweep(std::uint64_t offset) {
  time_ = checked_mul(sweep_.number(), sweep_.num_samples());
  checked_add(time_, sweep_.num_samples());
  time_ += sweep_.samples_before(offset, 0);
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
    const std::uint64_t start = sweep_.row_start(l, sweep_.cut(l) + offset);
    lanes_[l] = {};
    if (start >= sweep_.lane_end(l)) continue;
    lanes_[l].pack = sweep_.take_pack(l, start);
    lanes_[l].row = lanes_[l].pack->row_at(start);
    push_key(l, start);
  }
  sweep_.let_go();
}

void LaneRows::push_key(std::uint32_t number, std::uint64_t start) {
  keys_.push_back((start - sweep_.cut(number)) << kLaneBits | number);
  std::ranges::push_heap(keys_, std::greater<>());
}

void LaneRows::enter_next_sweep() {
  sweep_ = PackedSweep(*timeline_, packing_, sweep_.number() + 1);
  open_sweep(0);
}

std::span<const Piece> LaneRows::front() const noexcept {
  const Lane& lane = lanes_[front_lane()];
  return lane.pack->row(lane.row);
}

void LaneRows::pop() {
  const std::uint32_t number = front_lane();
  std::ranges::pop_heap(keys_, std::greater<>());
  keys_.pop_back();
  Lane& lane = lanes_[number];
  const std::uint64_t start = lane.pack->starts[lane.row + 1];
  time_ += start - lane.pack->starts[lane.row];
  if (start >= sweep_.lane_end(number)) {
    lane = {};  // the lane has ended: its chunks may be closed
    return;
  }
  if (++lane.row == lane.pack->num_rows()) {
    lane.pack = sweep_.take_pack(number, start);
    lane.row = lane.pack->row_at(start);
    sweep_.let_go();
  } else {
    lane.pack->blocks.close_before(lane.row);
  }
  push_key(number, start);
}

void LaneRows::opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  const Lane& lane = lanes_[front_lane()];
  lane.pack->blocks.opened_at(lane.row, blocks);
}

void LaneRows::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  for (const Lane& lane : lanes_) {
    if (lane.pack) lane.pack->blocks.open_at(lane.row, blocks);
  }
}

}  // namespace sweephand
