// The list of one sweep: blocks of shuffled chunks one after the other, cut into lanes.
#pragma once

#include "index/corpus.hpp"
#include "order/block.hpp"
#include "order/chunk_starts.hpp"
#include "order/lane_starts.hpp"
#include "order/list_run.hpp"
#include "order/settings.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace sweephand {

// Chunks that are shuffled together: those of one block. Blocks that no window cuts are all.
std::uint64_t block_chunks(const Corpus& corpus, const OrderSettings& settings);

// Of a sweep.
std::uint64_t num_blocks(const Corpus& corpus, const OrderSettings& settings);

// Blocks are made on demand, and held here until let_go, as a search uses the same ones
// repeatedly. After that they live as long as another object holds them. Not thread-safe.
class Sweep {
 public:
  // Linear in the number of chunks, if their samples differ.
  Sweep(std::shared_ptr<const Corpus> corpus, const OrderSettings& settings,
        std::uint64_t number);

  // Another sweep, or this one from its beginning, which is constant.
  Sweep sweep(std::uint64_t number) const;

  const Corpus& corpus() const noexcept { return *corpus_; }
  std::uint64_t number() const noexcept { return number_; }
  std::uint32_t num_lanes() const noexcept { return num_lanes_; }
  std::uint64_t num_blocks() const noexcept { return num_blocks_; }
  std::uint64_t num_samples() const noexcept { return corpus_->chunks.num_samples(); }

  // Where lane `lane` begins to own the sequences that start; `lane` may be num_lanes().
  std::uint64_t cut(std::uint32_t lane) const noexcept;

  // Where a block begins in the list; `block` may be num_blocks().
  std::uint64_t block_begin(std::uint64_t block) const;

  // The block that holds `sample`; num_blocks() beyond the end.
  std::uint64_t block_at(std::uint64_t sample) const;

  // The chunks of a block, ascending; none where it is the only one. REQUIRES: block <
  // num_blocks()
  std::vector<std::uint64_t> chunks_of(std::uint64_t block) const;

  // Its shuffle is a table that is worth dealing for a place alone: there are as many blocks as
  // lanes, and it is none of the largest. REQUIRES: block < num_blocks()
  bool is_dealt(std::uint64_t block) const;

  // Of the shuffle of a block.
  std::uint64_t shuffle_key(std::uint64_t block) const noexcept;

  // REQUIRES: block < num_blocks()
  std::shared_ptr<const Block> block(std::uint64_t block);
  std::shared_ptr<const Block> block_not_held(std::uint64_t block);
  void let_go() noexcept;

  // The place in the list after a block; block num_blocks() at its end.
  ListPlace behind(std::uint64_t block) const;

  // The first sequence of the list that starts at or after `sample`; block num_blocks() if
  // there is none.
  ListPlace first_at_or_after(std::uint64_t sample);

  // The first sequence of a lane, by its start; num_samples() for num_lanes().
  std::uint64_t first_start(std::uint32_t lane) { return lanes_.first(*this, lane); }

  // The place of `sequence` in the list. REQUIRES: the corpus has it
  ListPlace find(std::uint64_t sequence);

  // The samples of all sequences with a key below (offset, lane), which is how many are
  // delivered before it.
  std::uint64_t samples_before(std::uint64_t offset, std::uint32_t lane) {
    return lanes_.samples_before(*this, offset, lane);
  }

  // The first sequence of a lane at or after `offset` from its cut. Valid until let_go.
  // REQUIRES: samples_before(offset, 0) was asked for last, and the lane is longer
  LanePlace place_in(std::uint32_t lane, std::uint64_t offset) {
    return lanes_.place(*this, lane, cut(lane) + offset);
  }

  // The largest offset with samples_before(offset, 0) <= samples. REQUIRES: samples <
  // num_samples()
  std::uint64_t offset_at(std::uint64_t samples);

 private:
  std::uint64_t key_of(std::uint64_t purpose) const noexcept;
  std::uint64_t key_of(std::uint64_t purpose, std::uint64_t block) const noexcept;
  Shuffle shuffle_of(std::uint64_t block) const;
  std::shared_ptr<const Block> make_block(std::uint64_t block);

  std::shared_ptr<const Corpus> corpus_;
  OrderSettings settings_;
  std::uint64_t number_;
  std::uint32_t num_lanes_;
  std::uint64_t block_chunks_;  // chunks in a block
  std::uint64_t num_blocks_;
  std::shared_ptr<const Permutation> chunk_order_;  // null with one block, and in storage order
  // Where the chunks begin. Where all but the last have one number of samples it is enough to
  // know the place of the last.
  std::optional<ChunkStarts> starts_;
  std::uint64_t last_place_ = 0;
  LaneStarts lanes_;
  std::map<std::uint64_t, std::weak_ptr<const Block>> blocks_;
  std::vector<std::shared_ptr<const Block>> held_;
};

}  // namespace sweephand
