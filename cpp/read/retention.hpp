// The decision which chunks stay in memory.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_set>
#include <vector>

namespace sweephand {

// The chunks of the corpus that are needed by blocks that are open or will be soon, and by
// minibatches in progress. The first member has the same chunks; the other members are joined
// to it.
struct Demand {
  std::unordered_set<std::uint64_t> chunks;  // of the blocks that name theirs
  bool wants_all = false;                    // a block is the whole corpus
  bool in_given_order = false;   // which the corpus gives: chunks come and go within a block
  std::uint64_t num_making = 0;  // minibatches that are being made
  std::uint64_t num_used = 0;    // chunks of the first member that such a one uses
};

// How chunks of the corpus are loaded, whose parts are chunks of the member.
struct ChunkParts {
  // The first part of every chunk of the corpus, and the end; empty: each is loaded as a whole.
  std::vector<std::uint64_t> starts;

  std::uint64_t chunk_of(std::uint64_t part) const;
  std::vector<std::uint64_t> parts_of(std::span<const std::uint64_t> chunks) const;
};

// A chunk in a cache, or a part of a chunk if parts are loaded.
struct HeldChunk {
  std::uint64_t chunk = 0;
  std::uint64_t bytes = 0;
  std::uint64_t last_wanted = 0;  // a time
  bool is_loading = false;        // it cannot leave now
};

// The rule for the chunks of one member.
struct Retention {
  bool is_first = true;
  std::uint64_t open_chunks = 1;   // of the first member, in a given order
  std::uint64_t num_chunks = 1;    // that are loaded
  std::uint64_t first_chunks = 1;  // the chunks of the corpus
  ChunkParts parts;

  // Whether a chunk that is not loaded yet shall still be loaded ahead.
  bool wants(const Demand& demand, std::uint64_t chunk) const;

  // The chunks that leave.
  std::vector<std::uint64_t> leaving(const Demand& demand,
                                     std::span<const HeldChunk> held) const;

  // Whether chunks stay as long as a block that holds them is open, whatever else is wanted.
  bool stays_while_open(const Demand& demand) const {
    return is_first && !demand.in_given_order;
  }

 private:
  std::uint64_t most_recent(const Demand& demand) const;
};

}  // namespace sweephand
