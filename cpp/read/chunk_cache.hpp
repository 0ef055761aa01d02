// Chunks that were loaded and are still wanted.
#pragma once

#include "read/deserializer.hpp"

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace sweephand {

struct ChunkCacheStats {
  std::uint64_t chunks_loaded = 0;
  std::uint64_t hits = 0;
  std::uint64_t bytes_loaded = 0;
  std::uint64_t bytes_held = 0;
};

// Safe for several threads; one that wants a chunk which another one is loading waits for it.
class ChunkCache {
 public:
  explicit ChunkCache(std::shared_ptr<Deserializer> deserializer)
      : deserializer_(std::move(deserializer)) {}

  // The chunk, loaded if it is not here. Throws what the deserializer throws; a later call
  // tries again.
  std::shared_ptr<const Chunk> get(std::uint64_t chunk);

  // Forgets the chunks that `wanted` denies. Whoever has one keeps it.
  void keep_only(const std::function<bool(std::uint64_t)>& wanted);

  ChunkCacheStats stats() const;

 private:
  using Entry = std::shared_ptr<const Chunk>;  // null while it is being loaded

  std::shared_ptr<Deserializer> deserializer_;
  mutable std::mutex mutex_;
  std::condition_variable loaded_;
  std::map<std::uint64_t, Entry> chunks_;
  ChunkCacheStats stats_;
};

}  // namespace sweephand
