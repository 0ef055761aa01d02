// The list of one sweep: blocks of shuffled chunks one after the other, cut into lanes.
#pragma once

#include "index/chunk_table.hpp"
#include "index/corpus.hpp"
#include "order/block.hpp"
#include "order/permutation.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// The begins of the chunks of a shuffled sweep in its list, in samples.
// Immutable. The samples of groups of neighbouring places are added up once, in a pass over the
// chunks; those within a group on demand.
class ChunkStarts {
 public:
  // Linear in the number of chunks. `chunks` and `order`, which shuffles them, outlive it.
  ChunkStarts(const ChunkTable& chunks, const Permutation& order);

  // Where the chunk at `place` begins; `place` may be the number of chunks.
  std::uint64_t begin(std::uint64_t place) const;

  // The last place that begins at or before `sample`; the number of chunks beyond the end.
  std::uint64_t place_at(std::uint64_t sample) const;

 private:
  static constexpr std::uint64_t kPlaces = 32;  // of a group: a look at one is some cache lines

  void add_samples();

  const ChunkTable* chunks_;
  const Permutation* order_;
  std::vector<std::uint64_t> begins_;  // of each group, and the end
};

// The largest offset with samples_before(offset) <= samples, for a function that never falls
// and is 0 at 0. It gallops from `near`, then halves: far places are not looked at, as each
// would open a block per lane. REQUIRES: samples_before passes `samples` somewhere
template <class SamplesBefore>
std::uint64_t last_offset(std::uint64_t near, std::uint64_t samples,
                          const SamplesBefore& samples_before) {
  const auto at_or_before = [&](std::uint64_t offset) {
    return samples_before(offset) <= samples;
  };
  std::uint64_t low = near;
  std::uint64_t high = near;
  for (std::uint64_t step = 1; !at_or_before(low); step *= 2) {
    high = low;
    low -= std::min(low, step);
  }
  for (std::uint64_t step = 1; high == low || at_or_before(high); step *= 2) {
    low = high;
    high += step;
  }
  while (high - low > 1) {
    const std::uint64_t middle = low + (high - low) / 2;
    (at_or_before(middle) ? low : high) = middle;
  }
  return low;
}

// The settings that decide the order, beside the corpus: docs/order.md.
struct OrderSettings {
  std::uint64_t seed = 0;
  std::uint32_t num_lanes = 48;
  std::uint64_t window_chunks = 0;  // 0: not given
  std::uint64_t window_samples =
      0;                  // 0: not given; without either, one block covers the corpus
  bool randomize = true;  // false: storage order, which rows and shares follow, and one lane
};

inline constexpr std::uint64_t kOrderVersion = 1;

// Chunks that are shuffled together: those of one block. Blocks that no window cuts are all.
std::uint64_t block_chunks(const Corpus& corpus, const OrderSettings& settings);

// Of a sweep.
std::uint64_t num_blocks(const Corpus& corpus, const OrderSettings& settings);

class Sweep;

// The begins of the lanes of a sweep, and their places at an offset. Blocks are dealt only as
// far as a place needs: a lane is in one, begins in another, and may continue in neither. Every
// call names the same sweep.
class LaneStarts {
 public:
  explicit LaneStarts(std::uint32_t num_lanes) : firsts_(num_lanes) {}

  // The start of the first sequence of a lane; the end of the list for num_lanes().
  std::uint64_t first(Sweep& sweep, std::uint32_t lane);

  // As Sweep::samples_before.
  std::uint64_t samples_before(Sweep& sweep, std::uint64_t offset, std::uint32_t lane);

  // The first sequence of a lane at or after `sample`. Valid until let_go. REQUIRES:
  // samples_before was asked of it
  LanePlace place(Sweep& sweep, std::uint32_t lane, std::uint64_t sample);

  void let_go() noexcept { runs_.clear(); }

 private:
  // A lane, and a sample of the list.
  struct Wanted {
    std::uint32_t lane;
    std::uint64_t sample;
  };

  static std::vector<std::shared_ptr<const Block>> blocks_at(Sweep& sweep,
                                                             std::span<const Wanted> wanted);
  void find_firsts(Sweep& sweep, std::span<const Wanted> wanted);
  void find_runs(Sweep& sweep, std::span<const Wanted> wanted);
  void find_all(Sweep& sweep, std::uint64_t offset, std::uint32_t lane);

  std::vector<std::optional<std::uint64_t>> firsts_;  // of each lane, once known
  std::vector<ListRun> runs_;                         // where each was looked at last
};

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

  // REQUIRES: block < num_blocks()
  std::shared_ptr<const Block> block(std::uint64_t block);
  void let_go() noexcept;

  // The place in the list after a block; block num_blocks() at its end.
  ListPlace behind(std::uint64_t block) const;

  // The first sequence of the list that starts at or after `sample`; block num_blocks() if
  // there is none.
  ListPlace first_at_or_after(std::uint64_t sample);

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
