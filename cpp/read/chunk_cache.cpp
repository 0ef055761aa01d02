#include "read/chunk_cache.hpp"

#include "base/error.hpp"

namespace sweephand {

std::shared_ptr<const Chunk> ChunkCache::get(std::uint64_t chunk) {
  std::unique_lock lock(mutex_);
  for (auto found = chunks_.find(chunk); found != chunks_.end(); found = chunks_.find(chunk)) {
    if (found->second) {
      ++stats_.hits;
      return found->second;
    }
    loaded_.wait(lock);
  }
  chunks_[chunk] = nullptr;
  lock.unlock();
  Entry made;
  try {
    made = deserializer_->load(chunk);
  } catch (...) {
    lock.lock();
    chunks_.erase(chunk);
    loaded_.notify_all();
    throw;
  }
  lock.lock();
  chunks_[chunk] = made;
  ++stats_.chunks_loaded;
  stats_.bytes_loaded += made->bytes;
  stats_.bytes_held += made->bytes;
  loaded_.notify_all();
  return made;
}

void ChunkCache::keep_only(const std::function<bool(std::uint64_t)>& wanted) {
  std::vector<Entry> dropped;  // freed after the lock: that may take long, or need another lock
  const std::scoped_lock lock(mutex_);
  for (auto entry = chunks_.begin(); entry != chunks_.end();) {
    if (!entry->second || wanted(entry->first)) {
      ++entry;
      continue;
    }
    stats_.bytes_held -= entry->second->bytes;
    dropped.push_back(std::move(entry->second));
    entry = chunks_.erase(entry);
  }
}

ChunkCacheStats ChunkCache::stats() const {
  const std::scoped_lock lock(mutex_);
  return stats_;
}

}  // namespace sweephand
