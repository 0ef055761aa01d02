// Chunks that are shuffled together, and the starts of their sequences.
#pragma once

#include "base/search.hpp"
#include "index/corpus.hpp"
#include "order/dealt_list.hpp"
#include "order/permutation.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// One sequence as the planner meets it.
struct PlannedSequence {
  std::uint64_t sequence;  // number in the corpus
  std::uint32_t size;      // in samples
  std::uint16_t lane;
  std::uint16_t sweep;  // behind that of the plan: see Plan
};

// Its chunks are known from the start, and to any thread; its list is made when it is first
// used, by the planning thread, and dealt as far as that needs. Up to Permutation::kTableSize
// sequences, or where sizes are not in memory, the list holds 8 bytes for each; else 8 bytes
// for every kStride of them.
class Block {
 public:
  // `chunks` is ascending; empty, it means all chunks of the corpus, and must be so where the
  // corpus defines the order. Without the key of a shuffle the block keeps the storage order,
  // or the corpus' own order of `sweep`. Linear in the number of chunks.
  Block(std::shared_ptr<const Corpus> corpus, std::vector<std::uint64_t> chunks,
        std::optional<std::uint64_t> shuffle_key, std::uint64_t sweep);

  const std::shared_ptr<const Corpus>& corpus() const noexcept { return corpus_; }
  std::uint64_t num_sequences() const noexcept { return num_sequences_; }
  std::span<const std::uint64_t> chunks() const noexcept { return chunks_; }

  // Makes the list, unless it is there. Linear in the number of sequences; with a common size
  // it is constant, but for the table of a shuffle. Throws DataError when sizes
  // are 0 or do not sum to those of the chunk table, as do all functions below.
  void make_list() const;

  // Makes the lists of blocks of one corpus that have none and remember sizes, which are asked
  // for at once. Throws as make_list; those before the one at fault are made.
  static void make_lists(std::span<const Block* const> blocks);

  // The corpus gives the order, in which chunks may come and go within the block.
  bool has_given_order() const noexcept { return order_ != nullptr; }

  // Prefetches the memory that fill(place) reads first, if the list exists. REQUIRES: place <
  // num_sequences()
  void fetch(std::uint64_t place) const noexcept;

  // Writes the sequences at places [first, first + out.size()), as those of a lane. REQUIRES:
  // first + out.size() <= num_sequences()
  void fill(std::uint64_t first, std::uint16_t lane, std::span<PlannedSequence> out) const;

  // The first place that starts at or after `sample`; {num_sequences, num_samples} if there is
  // none. Logarithmic.
  BlockPlace first_at_or_after(std::uint64_t sample) const;

  // The place of `sequence`. Linear in the block if the shuffle is a table. REQUIRES: the block
  // holds it
  BlockPlace find(std::uint64_t sequence) const;

 private:
  static constexpr std::uint64_t kStride = DealtList::kStride;  // of two remembered starts

  // Where sizes differ and a table shuffles, `dealt` is all that there is.
  struct List {
    std::optional<DealtList> dealt;
    std::optional<Permutation> permutation;
    // In list order, if they differ and are worth remembering.
    std::unique_ptr<std::uint32_t[]> sizes;  // NOLINT(*-avoid-c-arrays): not to be zeroed
    // Of every kStride-th place, and the end, if sizes differ.
    std::vector<std::uint64_t> starts;
  };

  List& list() const {
    if (!list_) make_list();
    return *list_;
  }
  bool remembers_sizes() const;
  bool is_dealt() const;
  void add_runs(std::vector<SequenceRun>& runs) const;
  void make_list(std::span<const std::uint32_t> stored) const;
  DealtList read_list() const;
  void remember_sizes(List& list, std::span<const std::uint32_t> stored) const;
  void remember_starts(List& list) const;
  void check_rank(std::uint64_t rank) const;
  void sequences_at(const List& list, std::uint64_t first, std::span<std::uint64_t> out) const;
  void fill_of_dealt(std::span<const std::uint64_t> items, std::uint16_t lane,
                     std::span<PlannedSequence> out) const;
  void to_sequences(std::span<std::uint64_t> ranks) const;
  std::uint64_t to_base_rank(std::uint64_t sequence) const;
  // Both serve at most kStride places at once.
  void base_ranks_at(const List& list, std::uint64_t first, std::span<std::uint64_t> out) const;
  void sizes_at(const List& list, std::uint64_t first, std::span<std::uint32_t> out) const;

  std::shared_ptr<const Corpus> corpus_;
  std::vector<std::uint64_t> chunks_;
  std::vector<std::uint64_t>
      first_rank_;  // base rank of each chunk's first sequence, and the end; or none
  std::vector<std::uint64_t> shifts_;  // of each chunk: number less base rank, modulo 2^64
  EvenGuess chunk_guess_;
  std::uint64_t num_sequences_ = 0;
  std::uint64_t num_samples_ = 0;
  std::uint32_t common_size_ = 0;  // 0: they differ
  std::optional<std::uint64_t> shuffle_key_;
  std::uint64_t sweep_ = 0;
  const GivenOrder* order_ = nullptr;  // the corpus', if it decides
  mutable std::unique_ptr<List> list_;
};

// Places in the list of a sweep.
// A place in the list, and the samples of the sweep's list before it.
struct ListPlace {
  std::uint64_t block;
  std::uint64_t place;  // in the block
  std::uint64_t start;
};

// Neighbouring sequences of a block, in the order of the list: its known part around the place
// of a lane. A search returns to nearby places, and reading on begins with these.
struct ListRun {
  static constexpr std::size_t kBefore = 4;  // the place that was looked for
  static constexpr std::size_t kMost = 16;

  ListPlace first{};
  std::uint64_t end = 0;         // of the last one, in the list
  std::uint64_t num_places = 0;  // of the block
  std::uint32_t count = 0;       // 0: nothing is known
  std::array<PlannedSequence, kMost> sequences;

  // Whether the first sequence that starts at or after `sample` is in the run, or begins where
  // it ends.
  bool covers(std::uint64_t sample) const noexcept {
    return count != 0 && first.start <= sample && sample <= end;
  }

  // How many of them start before `sample`, and the start of the next. REQUIRES: covers
  BlockPlace find(std::uint64_t sample) const noexcept {
    BlockPlace found{.place = 0, .start = first.start};
    while (found.start < sample) found.start += sequences[found.place++].size;
    return found;
  }
};

// A place of a lane, and the known sequences there: some or none of its block.
struct LanePlace {
  ListPlace at;
  std::span<const PlannedSequence> known;
};

}  // namespace sweephand
