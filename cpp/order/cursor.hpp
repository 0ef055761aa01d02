// Walks along the timeline, sequence by sequence: the lanes of a sweep merged in key order.
#pragma once

#include "order/timeline.hpp"

#include <array>
#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

class Cursor {
 public:
  // Stands at the first sequence of the sweep that begins at or after `time`, or at the sweep's
  // end.
  Cursor(std::shared_ptr<const Timeline> timeline, std::uint64_t time);

  // Nominal time of the front sequence.
  std::uint64_t time() const noexcept { return time_; }
  std::uint64_t sweep() const noexcept { return sweep_.number(); }
  std::uint64_t sweep_end() const noexcept { return sweep_end_; }

  // The sweep has no more sequences; time() is sweep_end().
  bool sweep_done() const noexcept { return tree_[1] == kExhausted; }

  // Goes to the first sequence of the next sweep. REQUIRES: sweep_done()
  void enter_next_sweep();

  // The next sequence of the sweep. Valid until the next call. REQUIRES: !sweep_done()
  const PlannedSequence& front() const noexcept {
    const Lane& lane = lanes_[lane_of(tree_[1])];
    return lane.buffer[lane.head];
  }

  // The block that the next sequence comes from. REQUIRES: !sweep_done()
  const std::shared_ptr<const Block>& front_block() const noexcept {
    return lanes_[lane_of(tree_[1])].block;
  }

  // Goes on by one sequence; costs one comparison per doubling of the lanes. REQUIRES:
  // !sweep_done()
  void pop();

  // Adds the blocks that lanes stand in, unless `blocks` has them. Who keeps them keeps their
  // chunks open.
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const;

 private:
  // Sequences of one lane, read from its block a buffer at a time.
  struct Lane {
    std::array<PlannedSequence, 64> buffer;
    std::uint32_t head = 0;
    std::uint32_t count = 0;
    std::uint64_t start = 0;  // of the front sequence, in samples of the list
    std::uint64_t begin = 0;  // the lane's cuts
    std::uint64_t end = 0;
    std::uint64_t block_index = 0;
    std::uint64_t place = 0;  // in the block, of the first sequence that is not in the buffer
    std::shared_ptr<const Block> block;
  };

  // A key is (offset in the lane, lane), the lane in the low bits; kExhausted is above all
  // keys.
  static constexpr unsigned kLaneBits = 16;
  static constexpr std::uint64_t kExhausted = ~std::uint64_t{0};
  static std::uint32_t lane_of(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key & ((1U << kLaneBits) - 1));
  }

  void open_sweep(std::uint64_t offset);
  void place_lane(std::uint32_t number, std::uint64_t offset);
  void refill(std::uint32_t number);
  std::uint64_t key(std::uint32_t number) const noexcept;
  void set_key(std::uint32_t number);

  std::shared_ptr<const Timeline> timeline_;
  Sweep sweep_;
  std::uint64_t sweep_end_ = 0;
  std::uint64_t time_ = 0;
  std::vector<Lane> lanes_;
  std::size_t leaves_ = 1;  // a power of two, at least the number of lanes
  std::vector<std::uint64_t>
      tree_;  // tree_[i] is the least key below node i; leaf l is leaves_ + l
};

// The numbers of the sequences that begin in [start, stop) of nominal time.
std::vector<std::uint64_t> sequences_between(std::shared_ptr<const Timeline> timeline,
                                             std::uint64_t start, std::uint64_t stop);

}  // namespace sweephand
