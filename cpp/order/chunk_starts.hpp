// Where the chunks of a shuffled sweep begin in its list, in samples.
#pragma once

#include "index/chunk_table.hpp"
#include "order/permutation.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace sweephand {

// The samples of groups of neighbouring places are added up once, in a pass over the chunks;
// the places of a group when one of them is asked for. Not for several threads at once.
class ChunkStarts {
 public:
  // Linear in the number of chunks. `chunks` and `order`, which shuffles them, outlive it.
  ChunkStarts(const ChunkTable& chunks, const Permutation& order);

  // Where the chunk at `place` begins; `place` may be the number of chunks.
  std::uint64_t begin(std::uint64_t place);

  // The last place that begins at or before `sample`; the number of chunks beyond the end.
  std::uint64_t place_at(std::uint64_t sample);

  // Drops the entries that can be computed again.
  void let_go() noexcept { groups_.clear(); }

 private:
  static constexpr std::uint64_t kPlaces = 256;     // of a group
  static constexpr std::size_t kMostGroups = 4096;  // that are remembered

  std::vector<std::uint64_t> group_sums() const;
  const std::vector<std::uint64_t>& group(std::uint64_t number);

  const ChunkTable* chunks_;
  const Permutation* order_;
  std::vector<std::uint64_t> begins_;                           // of each group, and the end
  std::map<std::uint64_t, std::vector<std::uint64_t>> groups_;  // where their places begin
};

}  // namespace sweephand
