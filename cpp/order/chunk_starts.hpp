// The begins of the chunks of a shuffled sweep in its list, in samples.
#pragma once

#include "index/chunk_table.hpp"
#include "order/permutation.hpp"

#include <cstdint>
#include <vector>

namespace sweephand {

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

}  // namespace sweephand
