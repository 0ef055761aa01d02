// Walks along the sweeps of a corpus: the lanes of a sweep merged in key order.
#pragma once

#include "order/block.hpp"
#include "order/sweep.hpp"
#include "order/timeline.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// Brings sequences of many lanes into key order.
// A counting sort by offset, which takes a few ns a sequence for any number of lanes: a
// tournament of lanes takes a comparison per doubling, and waits for each.
class Merge {
 public:
  std::size_t size() const noexcept { return count_; }

  // Adds the first of `sequences`, those of one lane, that begin at offsets below `end`, and
  // returns how many. They are at `place` of the input of sort, before those of later lanes.
  // `offset` is that of the first one, and becomes that of the next.
  std::size_t add(std::span<const PlannedSequence> sequences, std::size_t place,
                  std::uint64_t& offset, std::uint64_t begin, std::uint64_t end);

  // All in the order of (offset, lane); empties itself. Linear, but where many begin together.
  void sort(std::span<const PlannedSequence> from, std::vector<PlannedSequence>& sorted);

 private:
  void reserve(std::size_t count);
  void deal();

  // Offset in the high half, place in the low one: of equal offsets the earlier lane comes
  // first.
  std::vector<std::uint64_t> keys_;
  std::vector<std::uint64_t> sorted_;
  std::size_t count_ = 0;
  std::vector<std::uint32_t> ends_;  // of the keys that share the high bits of their offset
};

// Walks along the sweeps of a corpus: the lanes of a sweep merged in key order.
class SweepCursor final : public Cursor {
 public:
  // Stands at the first sequence of the sweep that begins at or after `time`, or at the sweep's
  // end. REQUIRES: `time` is in the sweep
  SweepCursor(Sweep sweep, std::uint64_t time);

  std::unique_ptr<Cursor> at(std::uint64_t time) const override;
  std::uint64_t sweep() const noexcept override { return sweep_.number(); }
  std::uint64_t sweep_begin() const noexcept override { return sweep_begin_; }
  bool sweep_done() const noexcept override { return merged_.empty(); }
  void enter_next_sweep() override;
  std::span<const PlannedSequence> ahead() const noexcept override {
    return std::span(merged_).subspan(front_, border_ - front_);
  }
  void pop(std::size_t count, std::uint64_t samples) override {
    time_ += samples;
    front_ += count;
    if (front_ == border_) pass_border();
  }
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;
  void add_blocks(std::span<const PlannedSequence> first, std::uint32_t taker,
                  std::vector<std::shared_ptr<const Block>>& blocks) override {
    for (const PlannedSequence& sequence : first) add_block(sequence, taker, blocks);
  }
  std::uint32_t place_of_block(std::size_t i) const noexcept override {
    return open_[merged_[front_ + i].lane].place;
  }

  // As add_blocks, for one sequence; returns the place of the block.
  std::uint32_t add_block(const PlannedSequence& sequence, std::uint32_t taker,
                          std::vector<std::shared_ptr<const Block>>& blocks) {
    Open& open = open_[sequence.lane];
    if (open.taker == taker) return open.place;
    open.taker = taker;
    open.place = static_cast<std::uint32_t>(blocks.size());
    blocks.push_back(open.block);
    return open.place;
  }

 private:
  // The progress of a lane; offsets are samples from its cut. Sequences that were read from
  // blocks and not handed over are in its buffer.
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

  // The block that the lane's next sequence comes from, and the next block.
  struct Open {
    std::shared_ptr<const Block> block;  // null if the lane has ended
    std::shared_ptr<const Block> later;  // null unless it has been read from
    std::uint32_t taker = 0;             // that knows `block`
    std::uint32_t place = 0;             // of `block` among those that it knows
  };

  PlannedSequence* buffer_of(std::uint32_t number) noexcept {
    return buffers_.data() + std::size_t{number} * depth_;
  }

  void open_sweep(std::uint64_t offset);
  void place_lane(std::uint32_t number, std::uint64_t offset);
  void top_up(std::uint32_t number);
  void enter_block(std::uint32_t number);
  void read_some(std::uint32_t number);
  void take_up(std::uint32_t number, std::span<PlannedSequence> part);
  void make_lists(std::span<const Block* const> blocks);
  void make_next_lists();
  void fetch(const Lane& lane) const noexcept;
  void merge();
  void find_borders();
  void pass_border();

  Sweep sweep_;
  std::uint64_t sweep_begin_ = 0;
  std::vector<Lane> lanes_;
  std::vector<Open> open_;    // of each lane
  std::uint32_t depth_;       // sequences in a buffer
  std::uint32_t filled_ = 0;  // of those: few at first, as a seek may need no more
  std::vector<PlannedSequence> buffers_;
  // All that begin at offsets below some bound, in key order. Of a lane no more than its buffer
  // holds, and no more than one border.
  std::vector<PlannedSequence> merged_;
  std::size_t front_ = 0;   // of those
  std::size_t border_ = 0;  // behind the last one that a lane has of a block, or the end
  std::vector<std::size_t> borders_;  // those behind, the last one first
  Merge merge_;
};

}  // namespace sweephand
