#include "order/cursor.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <bit>

namespace sweephand {

Cursor::Cursor(std::shared_ptr<const Timeline> timeline, std::uint64_t time)
    : timeline_(std::move(timeline)),
      sweep_(timeline_->sweep(time / timeline_->num_samples())),
      lanes_(sweep_.num_lanes()),
      leaves_(std::bit_ceil(lanes_.size())),
      tree_(2 * leaves_, kExhausted) {
  const std::uint64_t offset = sweep_.offset_at(time % timeline_->num_samples());
  open_sweep(offset);
  time_ += sweep_.samples_before(offset, 0);
  while (time_ < time && !sweep_done()) pop();
}

// Fills the lanes from `offset` on; time_ is left at the beginning of the sweep.
void Cursor::open_sweep(std::uint64_t offset) {
  time_ = checked_mul(sweep_.number(), timeline_->num_samples());
  sweep_end_ = checked_add(time_, timeline_->num_samples());
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) place_lane(l, offset);
  for (std::size_t node = leaves_; node-- > 1;) {
    tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
  }
  sweep_.let_go();
}

void Cursor::place_lane(std::uint32_t number, std::uint64_t offset) {
  Lane& lane = lanes_[number];
  lane.begin = sweep_.cut(number);
  lane.end = sweep_.cut(number + 1);
  lane.head = 0;
  lane.count = 0;
  lane.block = nullptr;
  lane.start = lane.end;
  if (lane.begin + offset < lane.end) {
    const ListPlace place = sweep_.first_at_or_after(lane.begin + offset);
    lane.start = place.start;
    lane.block_index = place.block;
    lane.place = place.place;
    if (lane.start < lane.end) {
      lane.block = sweep_.block(place.block);
      refill(number);
    }
  }
  tree_[leaves_ + number] = key(number);
}

void Cursor::refill(std::uint32_t number) {
  Lane& lane = lanes_[number];
  while (lane.place == lane.block->num_sequences()) {
    lane.block = sweep_.block(++lane.block_index);
    lane.place = 0;
    sweep_.let_go();
  }
  lane.head = 0;
  lane.count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(lane.buffer.size(), lane.block->num_sequences() - lane.place));
  const std::span part = std::span(lane.buffer).first(lane.count);
  lane.block->fill(lane.place, part);
  lane.place += lane.count;
  for (PlannedSequence& planned : part) planned.lane = number;
}

std::uint64_t Cursor::key(std::uint32_t number) const noexcept {
  const Lane& lane = lanes_[number];
  return lane.start < lane.end ? (lane.start - lane.begin) << kLaneBits | number : kExhausted;
}

void Cursor::pop() {
  const std::uint32_t number = lane_of(tree_[1]);
  Lane& lane = lanes_[number];
  const std::uint32_t size = lane.buffer[lane.head].size;
  lane.start += size;
  time_ += size;
  if (++lane.head == lane.count) {
    if (lane.start < lane.end) {
      refill(number);
    } else {
      lane.block = nullptr;  // the lane has ended: its chunks may be closed
    }
  }
  set_key(number);
}

// Only siblings are read on the way up, so that no step waits for the one before to be stored.
void Cursor::set_key(std::uint32_t number) {
  std::size_t node = leaves_ + number;
  std::uint64_t least = key(number);
  tree_[node] = least;
  while (node > 1) {
    least = std::min(least, tree_[node ^ 1]);
    node /= 2;
    tree_[node] = least;
  }
}

void Cursor::enter_next_sweep() {
  sweep_ = timeline_->sweep(sweep_.number() + 1);
  open_sweep(0);
}

void Cursor::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  for (const Lane& lane : lanes_) {
    if (lane.block && std::find(blocks.begin(), blocks.end(), lane.block) == blocks.end()) {
      blocks.push_back(lane.block);
    }
  }
}

std::vector<std::uint64_t> sequences_between(std::shared_ptr<const Timeline> timeline,
                                             std::uint64_t start, std::uint64_t stop) {
  std::vector<std::uint64_t> numbers;
  Cursor cursor(std::move(timeline), start);
  while (cursor.time() < stop) {
    if (cursor.sweep_done()) cursor.enter_next_sweep();
    numbers.push_back(cursor.front().sequence);
    cursor.pop();
  }
  return numbers;
}

}  // namespace sweephand
