// Loaded chunks that are still needed, as decided by read/retention.hpp.
#pragma once

#include "read/deserializer.hpp"
#include "read/retention.hpp"
#include "run/thread_group.hpp"
#include "run/turns.hpp"
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
#include <vector>

namespace sweephand {

struct ChunkCacheStats {
  std::uint64_t chunks_loaded = 0;
  std::uint64_t hits = 0;
  std::uint64_t bytes_loaded = 0;
  WorkTime load;  // of all threads that loaded
  std::uint64_t bytes_held = 0;
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

  ChunkCacheStats stats() const;

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
  ChunkCacheStats stats_;
  ThreadGroup threads_;
};

}  // namespace sweephand
