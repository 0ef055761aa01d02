// A corpus as the planner sees it: its chunks and the sizes of its sequences.
#pragma once

#include "index/chunk_table.hpp"
#include "index/sizes.hpp"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// The data's own order, as in the folder of another library.
// Every sweep has each sequence of the corpus once.
class GivenOrder {
 public:
  GivenOrder() = default;
  GivenOrder(const GivenOrder&) = delete;
  GivenOrder& operator=(const GivenOrder&) = delete;
  virtual ~GivenOrder() = default;

  // The sequences at places [first, first + out.size()) of a sweep.
  virtual void fill(std::uint64_t sweep, std::uint64_t first,
                    std::span<std::uint64_t> out) const = 0;

  // The place of `sequence` in a sweep. REQUIRES: the corpus has it
  virtual std::uint64_t place(std::uint64_t sweep, std::uint64_t sequence) const = 0;
};

// Which samples of each sequence a loss is taken on, and with what weight, as runs.
class LossMasks {
 public:
  // Sequence s has the runs [bounds[j], bounds[j + 1]) for j = offsets[s], offsets[s] + 2, ...
  // below offsets[s + 1], ascending and not empty; each sample of that run has the weight
  // weights[j / 2], or 1 without weights. Throws std::invalid_argument where that cannot be.
  LossMasks(std::vector<std::int64_t> offsets, std::vector<std::uint32_t> bounds,
            std::vector<double> weights);

  std::uint64_t num_sequences() const noexcept { return offsets_.size() - 1; }

  // Samples [begin, end) of a sequence that a loss is taken on. Linear in its runs. REQUIRES:
  // sequence < num_sequences()
  std::uint64_t count(std::uint64_t sequence, std::uint64_t begin,
                      std::uint64_t end) const noexcept;

  // The sum of their weights, one after the other from the first. Linear in the samples, but
  // without weights. REQUIRES: as count
  double weigh(std::uint64_t sequence, std::uint64_t begin, std::uint64_t end) const noexcept;

 private:
  // Calls visit(j, samples) for each run bounds[j] that has samples in [begin, end).
  template <class Visit>
  void visit_runs(std::uint64_t sequence, std::uint64_t begin, std::uint64_t end,
                  const Visit& visit) const noexcept;

  std::vector<std::int64_t> offsets_;
  std::vector<std::uint32_t> bounds_;
  std::vector<double> weights_;  // empty: all are 1
};

// A corpus as the planner sees it: its chunks and the sizes of its sequences.
struct Corpus {
  ChunkTable chunks;
  std::shared_ptr<const Sizes> sizes;
  std::shared_ptr<const GivenOrder> order;  // of sweeps that are not shuffled; null: as stored
  std::shared_ptr<const LossMasks> masks;   // null: there are none
};

// Throws std::invalid_argument when sizes are missing, or those that all sequences share do not
// sum to the samples of every chunk. Sizes that differ are looked at where they are used.
void check(const Corpus& corpus);

// The identity of a corpus: its sizes and its chunks, not its location.
// Of the sizes of all sequences in storage order, however they are stored. Linear, or constant
// with a common size.
std::string fingerprint_sizes(const Corpus& corpus);

// Of the number of sequences and samples in every chunk.
std::string fingerprint_chunks(const ChunkTable& chunks);

// Calls visit(first, sizes) for runs of sequences, `first` being the number of the first of
// them.
template <class Visit>
void walk_sizes(const Corpus& corpus, const Visit& visit) {
  constexpr std::uint64_t kRun = std::uint64_t{1} << 16;
  const std::uint64_t count = corpus.chunks.num_sequences();
  std::vector<std::uint32_t> buffer(std::min(kRun, count));
  for (std::uint64_t first = 0; first < count; first += kRun) {
    const std::span sizes = std::span(buffer).first(std::min(kRun, count - first));
    corpus.sizes->read(first, sizes);
    visit(first, std::span<const std::uint32_t>(sizes));
  }
}

// Sequences that are longer than a layout can use.
struct LongSequences {
  std::uint64_t num_sequences = 0;
  std::uint64_t num_samples = 0;
  std::uint32_t size = 0;      // of the longest one
  std::uint64_t sequence = 0;  // its number; the first among equals
};

// The sequences of more than `limit` samples. Linear, but constant with a common size; chunks
// too small to hold one are not looked into.
LongSequences find_long(const Corpus& corpus, std::uint32_t limit);

}  // namespace sweephand
