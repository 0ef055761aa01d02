#include "order/cursor.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace sweephand {
namespace {

// Many lanes have small buffers, so that all of them stay in the processor's cache.
constexpr std::size_t kManyLanes = 4096;
constexpr std::uint32_t kDeep = 64;
constexpr std::uint32_t kShallow = 16;
constexpr std::size_t kAhead = 8;   // turns
constexpr std::size_t kSoon = 128;  // lanes

}  // namespace

// NOLINTNEXTLINE(performance-unnecessary-value-param): the header says that it is kept
Cursor::Cursor(std::shared_ptr<const Timeline> timeline, std::uint64_t time)
    : Cursor(timeline, timeline->sweep(time / timeline->num_samples()), time) {}

Cursor::Cursor(const Cursor& other, std::uint64_t time)
    : Cursor(other.timeline_, other.sweep_.sweep(time / other.timeline_->num_samples()), time) {
}

Cursor::Cursor(std::shared_ptr<const Timeline> timeline, Sweep sweep, std::uint64_t time)
    : timeline_(std::move(timeline)),
      sweep_(std::move(sweep)),
      lanes_(sweep_.num_lanes()),
      depth_(lanes_.size() < kManyLanes ? kDeep : kShallow),
      buffers_(lanes_.size() * depth_) {
  if (timeline_->corpus().sizes->common() == 0) {
    leaves_ = std::bit_ceil(lanes_.size());
    tree_.assign(2 * leaves_, kExhausted);
  }
  const std::uint64_t offset = sweep_.offset_at(time % timeline_->num_samples());
  open_sweep(offset);
  time_ += sweep_.samples_before(offset, 0);
  while (time_ < time && !sweep_done()) pop();
}

// Fills the lanes from `offset` on; time_ is left at the beginning of the sweep.
void Cursor::open_sweep(std::uint64_t offset) {
  time_ = checked_mul(sweep_.number(), timeline_->num_samples());
  sweep_end_ = checked_add(time_, timeline_->num_samples());
  std::vector<std::uint64_t> keys(lanes_.size());
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
    place_lane(l, offset);
    keys[l] = key(l);
  }
  sweep_.let_go();
  if (tree_.empty()) {
    std::ranges::sort(keys);
    ring_.clear();
    for (const std::uint64_t one : keys) {
      if (one != kExhausted) ring_.push_back(lane_of(one));
    }
    turn_ = 0;
    front_ = ring_.empty() ? kNone : ring_.front();
    return;
  }
  std::ranges::copy(keys, tree_.begin() + static_cast<std::ptrdiff_t>(leaves_));
  for (std::size_t node = leaves_; node-- > 1;) {
    tree_[node] = std::min(tree_[2 * node], tree_[2 * node + 1]);
  }
  front_ = lane_of(tree_[1]);
}

void Cursor::place_lane(std::uint32_t number, std::uint64_t offset) {
  Lane& lane = lanes_[number];
  lane.begin = sweep_.cut(number);
  lane.end = sweep_.cut(number + 1);
  lane.head = 0;
  lane.count = 0;
  lane.taker = 0;
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
}

void Cursor::refill(std::uint32_t number) {
  Lane& lane = lanes_[number];
  while (lane.place == lane.block->num_sequences()) {
    lane.block = sweep_.block(++lane.block_index);
    lane.taker = 0;
    lane.place = 0;
    sweep_.let_go();
  }
  lane.head = 0;
  lane.count = static_cast<std::uint16_t>(
      std::min<std::uint64_t>(depth_, lane.block->num_sequences() - lane.place));
  const std::span part(buffer_of(number), lane.count);
  lane.block->fill(lane.place, part);
  lane.place += lane.count;
  for (PlannedSequence& planned : part) planned.lane = number;
  lane.front = part.front();
}

std::uint64_t Cursor::key(std::uint32_t number) const noexcept {
  const Lane& lane = lanes_[number];
  return lane.start < lane.end ? (lane.start - lane.begin) << kLaneBits | number : kExhausted;
}

void Cursor::pop() {
  Lane& lane = lanes_[front_];
  const std::uint32_t size = lane.front.size;
  lane.start += size;
  time_ += size;
  if (lane.start >= lane.end) {
    lane.block = nullptr;  // the lane has ended: its chunks may be closed
  } else if (++lane.head == lane.count) {
    refill(front_);
  } else {
    lane.front = buffer_of(front_)[lane.head];
  }
  front_ = tree_.empty() ? go_round() : climb(front_);
}

// The lane of the least key, after that of one lane has grown. Only siblings are read on the
// way up, so that no step waits for the one before to be stored. Of many lanes those are
// fetched that are the first in a part of the tree: they come soon.
std::uint32_t Cursor::climb(std::uint32_t number) {
  std::size_t node = leaves_ + number;
  std::uint64_t least = key(number);
  tree_[node] = least;
  const auto climb_to = [&](std::size_t width) {
    while (node >= 2 * width) {
      least = std::min(least, tree_[node ^ 1]);
      node /= 2;
      tree_[node] = least;
    }
  };
  if (leaves_ > kSoon) {
    climb_to(kSoon);
    if (least != kExhausted) fetch_soon(lane_of(least));
  }
  climb_to(1);
  return lane_of(least);
}

// Has the processor fetch what pop() looks at in a lane: the lane now, and what it points to
// some calls later, when the lane is there.
void Cursor::fetch_soon(std::uint32_t number) noexcept {
  __builtin_prefetch(&lanes_[number]);
  const std::uint32_t there = std::exchange(soon_[num_fetched_++ % soon_.size()], number);
  __builtin_prefetch(buffer_of(there) + lanes_[there].head + 1);
}

// The next lane in turn that has not ended; what comes soon is fetched.
std::uint32_t Cursor::go_round() noexcept {
  if (time_ == sweep_end_) return kNone;
  do {
    if (++turn_ == ring_.size()) turn_ = 0;
    if (turn_ + kAhead < ring_.size()) fetch_soon(ring_[turn_ + kAhead]);
  } while (lanes_[ring_[turn_]].start >= lanes_[ring_[turn_]].end);
  return ring_[turn_];
}

void Cursor::enter_next_sweep() {
  sweep_ = timeline_->sweep(sweep_.number() + 1);
  open_sweep(0);
}

void Cursor::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  for (const Lane& lane : lanes_) {
    // Lanes side by side are often in one block.
    if (lane.block && (blocks.empty() || blocks.back() != lane.block)) {
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
