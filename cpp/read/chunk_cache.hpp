// Loaded chunks that are still needed.
#pragma once

#include "read/deserializer.hpp"
#include "run/thread_group.hpp"
#include "run/work_time.hpp"

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
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

// Time and bytes of loading.
struct LoadStats {
  std::uint64_t chunks_loaded = 0;
  std::uint64_t chunk_hits = 0;
  std::uint64_t bytes_loaded = 0;
  std::uint64_t bytes_held = 0;  // by chunks that are kept for later minibatches
  WorkTime load;                 // of chunks, or of the sequences of a minibatch

  LoadStats& operator+=(const LoadStats& other) noexcept {
    chunks_loaded += other.chunks_loaded;
    chunk_hits += other.chunk_hits;
    bytes_loaded += other.bytes_loaded;
    bytes_held += other.bytes_held;
    load += other.load;
    return *this;
  }
};

// Safe for several threads; one that wants a chunk which another one is loading waits for it.
class ChunkCache {
 public:
  // `num_threads` load ahead, or as many as the system has; they start when there is something
  // to load. `in_turns`: get() loads for one minibatch at a time.
  ChunkCache(std::shared_ptr<Deserializer> deserializer, std::uint32_t num_threads,
             Retention retention, bool in_turns)
      : deserializer_(std::move(deserializer)),
        num_threads_(num_threads),
        retention_(std::move(retention)),
        in_turns_(in_turns) {}
  ChunkCache(const ChunkCache&) = delete;
  ChunkCache& operator=(const ChunkCache&) = delete;
  ~ChunkCache() { close(std::chrono::seconds::zero()); }

  // The chunk, loaded if it is not here. Throws the deserializer's errors; a later call tries
  // again.
  std::shared_ptr<const Chunk> get(std::uint64_t chunk, const Turn& turn);

  // Has the threads load those chunks that are not here: before those announced earlier, or
  // after them. Their errors are thrown by get().
  void load_ahead(std::span<const std::uint64_t> chunks, bool at_once = true);

  // Drops the chunks that the retention releases. Holders of such a chunk keep it.
  void settle(const Demand& demand);

  // Waits so long for the threads to end, and returns whether they have, but for the caller
  // itself. Chunks are loaded by get() alone from here on.
  bool close(std::chrono::duration<double> limit);

  // The caller is one of the threads, so the cache must outlive it.
  bool runs_here() const { return threads_.holds_caller(); }

  LoadStats stats() const;

 private:
  struct Entry {
    std::shared_ptr<const Chunk> chunk;  // null while it is being loaded
    std::uint64_t last_wanted = 0;       // a time: the value of clock_

    bool is_loading() const noexcept { return !chunk; }
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  Entry& load(Lock& lock, std::uint64_t chunk);

  std::shared_ptr<Deserializer> deserializer_;
  std::uint32_t num_threads_;
  Retention retention_;
  bool in_turns_;
  mutable std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::map<std::uint64_t, Entry> entries_;
  std::uint64_t clock_ = 0;
  std::size_t num_idle_ = 0;         // threads
  std::deque<std::uint64_t> ahead_;  // to be loaded by the threads
  Demand settled_;                   // nothing but what it wants is here
  bool is_settled_ = false;
  bool closed_ = false;
  LoadStats stats_;
  ThreadGroup threads_;
};

}  // namespace sweephand
