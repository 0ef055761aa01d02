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

  // The same, along the timeline of another cursor, which may know the sweep.
  Cursor(const Cursor& other, std::uint64_t time);

  // Nominal time of the front sequence.
  std::uint64_t time() const noexcept { return time_; }
  std::uint64_t sweep() const noexcept { return sweep_.number(); }
  std::uint64_t sweep_end() const noexcept { return sweep_end_; }

  // The sweep has no more sequences; time() is sweep_end().
  bool sweep_done() const noexcept { return front_ == kNone; }

  // Goes to the first sequence of the next sweep. REQUIRES: sweep_done()
  void enter_next_sweep();

  // The next sequence of the sweep. Valid until the next call. REQUIRES: !sweep_done()
  const PlannedSequence& front() const noexcept { return lanes_[front_].front; }

  // The block that the next sequence comes from. REQUIRES: !sweep_done()
  const std::shared_ptr<const Block>& front_block() const noexcept {
    return lanes_[front_].block;
  }

  // Goes on by one sequence; costs one comparison per doubling of the lanes, and none where all
  // sequences have one size. REQUIRES: !sweep_done()
  void pop();

  // Adds the blocks that lanes stand in; a block may come several times. Who keeps them keeps
  // their chunks open. Linear in the lanes.
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const;

  // Adds the block of the front sequence, unless its lane has added it for this `taker`, a
  // number other than 0 that no other one before had. REQUIRES: !sweep_done()
  void add_front_block(std::uint32_t taker, std::vector<std::shared_ptr<const Block>>& blocks) {
    Lane& lane = lanes_[front_];
    if (lane.taker == taker) return;
    lane.taker = taker;
    blocks.push_back(lane.block);
  }

 private:
  // What is asked of a lane for every sequence fills one line of the processor's cache. What it
  // has read from its block and not delivered is in its buffer.
  struct alignas(64) Lane {
    std::uint64_t start = 0;  // of the front sequence, in samples of the list
    std::uint64_t begin = 0;  // the lane's cuts
    std::uint64_t end = 0;
    PlannedSequence front = {};
    std::shared_ptr<const Block> block;
    std::uint32_t taker = 0;  // that knows the block
    std::uint16_t head = 0;   // of the buffer: the front sequence
    std::uint16_t count = 0;

    std::uint64_t block_index = 0;
    std::uint64_t place = 0;  // in the block, of the first sequence that is not in the buffer
  };

  // A key is (offset in the lane, lane), the lane in the low bits; kExhausted is above all
  // keys.
  static constexpr unsigned kLaneBits = 16;
  static constexpr std::uint64_t kExhausted = ~std::uint64_t{0};
  static constexpr std::uint32_t kNone = (1U << kLaneBits) - 1;  // kExhausted's; no lane is
  static std::uint32_t lane_of(std::uint64_t key) noexcept {
    return static_cast<std::uint32_t>(key & ((1U << kLaneBits) - 1));
  }

  PlannedSequence* buffer_of(std::uint32_t number) noexcept {
    return buffers_.data() + std::size_t{number} * depth_;
  }
  const PlannedSequence* buffer_of(std::uint32_t number) const noexcept {
    return buffers_.data() + std::size_t{number} * depth_;
  }

  Cursor(std::shared_ptr<const Timeline> timeline, Sweep sweep, std::uint64_t time);

  void open_sweep(std::uint64_t offset);
  void place_lane(std::uint32_t number, std::uint64_t offset);
  void refill(std::uint32_t number);
  std::uint64_t key(std::uint32_t number) const noexcept;
  std::uint32_t climb(std::uint32_t number);
  void fetch_soon(std::uint32_t number) noexcept;
  std::uint32_t go_round() noexcept;

  std::shared_ptr<const Timeline> timeline_;
  Sweep sweep_;
  std::uint64_t sweep_end_ = 0;
  std::uint64_t time_ = 0;
  std::uint32_t front_ = kNone;  // the lane of the next sequence
  std::vector<Lane> lanes_;
  std::uint32_t depth_;  // sequences in a buffer
  std::vector<PlannedSequence> buffers_;
  // With sizes that differ the least key wins a tournament: tree_[i] is the least below node i,
  // leaf l is leaves_ + l. With one size the lanes take turns, in the order of their first
  // keys.
  std::size_t leaves_ = 0;  // a power of two, at least the number of lanes
  std::vector<std::uint64_t> tree_;
  std::array<std::uint32_t, 4> soon_{};  // lanes that are being fetched, in turn
  std::size_t num_fetched_ = 0;
  std::vector<std::uint32_t> ring_;
  std::size_t turn_ = 0;  // of the front lane in the ring
};

// The numbers of the sequences that begin in [start, stop) of nominal time.
std::vector<std::uint64_t> sequences_between(std::shared_ptr<const Timeline> timeline,
                                             std::uint64_t start, std::uint64_t stop);

}  // namespace sweephand
