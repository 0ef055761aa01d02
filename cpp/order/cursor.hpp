// Walks along the timeline, sequence by sequence: the lanes of a sweep merged in key order.
#pragma once

#include "order/merge.hpp"
#include "order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
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
  bool sweep_done() const noexcept { return merged_.empty(); }

  // Goes to the first sequence of the next sweep. REQUIRES: sweep_done()
  void enter_next_sweep();

  // The sequences that come next, some of those of the sweep: at least one. Valid until the
  // next call. REQUIRES: !sweep_done()
  std::span<const PlannedSequence> ahead() const noexcept {
    return std::span(merged_).subspan(front_, border_ - front_);
  }

  // The first of them.
  const PlannedSequence& front() const noexcept { return merged_[front_]; }

  // The block that it comes from. REQUIRES: !sweep_done()
  const std::shared_ptr<const Block>& front_block() const noexcept {
    return open_[front().lane].block;
  }

  // Goes on by one sequence; constant on average, whatever the number of lanes. REQUIRES:
  // !sweep_done()
  void pop() { pop(1, front().size); }

  // Goes on by some of those ahead, which have `samples` samples.
  void pop(std::size_t count, std::uint64_t samples) {
    time_ += samples;
    front_ += count;
    if (front_ == border_) pass_border();
  }

  // Adds the blocks that lanes stand in; a block may come several times. Who keeps them keeps
  // their chunks open. Linear in the lanes.
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const;

  // Adds the block of a sequence ahead, unless its lane has added it for this `taker`, a number
  // other than 0 that no other one before had.
  void add_block(const PlannedSequence& sequence, std::uint32_t taker,
                 std::vector<std::shared_ptr<const Block>>& blocks) {
    Open& open = open_[sequence.lane];
    if (open.taker == taker) return;
    open.taker = taker;
    blocks.push_back(open.block);
  }

 private:
  // How far a lane has been read; offsets are samples from its cut. What it has read from
  // blocks and not handed over is in its buffer.
  struct alignas(64) Lane {
    std::uint64_t next = 0;  // offset of the first sequence in the buffer
    std::uint64_t read = 0;  // and of the first one behind the buffer
    std::uint64_t length = 0;
    const Block* block = nullptr;  // that is read from; it may be gone once all of it is
    std::uint64_t num_places = 0;  // of the block
    std::uint64_t block_index = 0;
    std::uint64_t place = 0;  // in the block, of the first sequence behind the buffer
    std::uint32_t head = 0;   // of the buffer
    std::uint32_t count = 0;
    std::size_t num_buffered() const noexcept { return count - head; }
    bool all_read() const noexcept { return read >= length; }
  };

  // The block that the lane's next sequence comes from, and the one behind it.
  struct Open {
    std::shared_ptr<const Block> block;  // null if the lane has ended
    std::shared_ptr<const Block> later;  // null unless it has been read from
    std::uint32_t taker = 0;             // that knows `block`
  };

  PlannedSequence* buffer_of(std::uint32_t number) noexcept {
    return buffers_.data() + std::size_t{number} * depth_;
  }

  Cursor(std::shared_ptr<const Timeline> timeline, Sweep sweep, std::uint64_t time);

  void open_sweep(std::uint64_t offset);
  void place_lane(std::uint32_t number, std::uint64_t offset);
  void top_up(std::uint32_t number);
  void enter_block(std::uint32_t number);
  void read_some(std::uint32_t number);
  void merge();
  void find_borders();
  void pass_border();

  std::shared_ptr<const Timeline> timeline_;
  Sweep sweep_;
  std::uint64_t sweep_end_ = 0;
  std::uint64_t time_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Open> open_;    // of each lane
  std::uint32_t depth_;       // sequences in a buffer
  std::uint32_t filled_ = 0;  // of those: few at first, as who seeks may want no more
  std::vector<PlannedSequence> buffers_;
  // All that begin at offsets below some bound, in key order. Of a lane no more than its buffer
  // holds, and no more than one border.
  std::vector<PlannedSequence> merged_;
  std::size_t front_ = 0;   // of those
  std::size_t border_ = 0;  // behind the last one that a lane has of a block, or the end
  std::vector<std::size_t> borders_;  // those behind, the last one first
  Merge merge_;
};

// The numbers of the sequences that begin in [start, stop) of nominal time.
std::vector<std::uint64_t> sequences_between(std::shared_ptr<const Timeline> timeline,
                                             std::uint64_t start, std::uint64_t stop);

}  // namespace sweephand
