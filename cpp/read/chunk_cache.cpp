#include "read/chunk_cache.hpp"

#include <algorithm>
#include <utility>

namespace sweephand {

// Makes an entry, and fills it with the chunk or with the error. REQUIRES: there is none yet
void ChunkCache::load(Lock& lock, std::uint64_t chunk) {
  entries_[chunk].last_wanted = ++clock_;
  lock.unlock();
  Entry made;
  try {
    made.chunk = deserializer_->load(chunk);
  } catch (...) {
    made.error = std::current_exception();
  }
  lock.lock();
  if (made.chunk) {
    ++stats_.chunks_loaded;
    stats_.bytes_loaded += made.chunk->bytes;
    stats_.bytes_held += made.chunk->bytes;
  }
  Entry& entry = entries_[chunk];
  entry.chunk = std::move(made.chunk);
  entry.error = std::move(made.error);
  changed_.notify_all();
}

std::shared_ptr<const Chunk> ChunkCache::get(std::uint64_t chunk) {
  Lock lock(mutex_);
  bool is_hit = true;
  while (true) {
    const auto found = entries_.find(chunk);
    if (found == entries_.end()) {
      is_hit = false;
      load(lock, chunk);
    } else if (found->second.is_loading()) {
      changed_.wait(lock);
    } else if (found->second.error) {
      const std::exception_ptr error = found->second.error;
      entries_.erase(found);
      if (is_hit) continue;  // met by a thread before: its cause may be gone, so load again
      std::rethrow_exception(error);
    } else {
      stats_.hits += is_hit ? 1 : 0;
      found->second.last_wanted = ++clock_;
      return found->second.chunk;
    }
  }
}

void ChunkCache::load_ahead(std::span<const std::uint64_t> chunks) {
  const Lock lock(mutex_);
  if (closed_ || num_threads_ == 0) return;
  for (const std::uint64_t chunk : chunks) {
    const bool known = entries_.contains(chunk) ||
                       std::find(ahead_.begin(), ahead_.end(), chunk) != ahead_.end();
    if (!known) ahead_.push_back(chunk);
  }
  if (ahead_.empty()) return;
  while (threads_.size() < num_threads_) {
    threads_.emplace_back([this](const std::stop_token& stop) { work(stop); });
  }
  changed_.notify_all();
}

void ChunkCache::work(const std::stop_token& stop) {
  Lock lock(mutex_);
  while (changed_.wait(lock, stop, [&] { return !ahead_.empty(); })) {
    const std::uint64_t chunk = ahead_.front();
    ahead_.pop_front();
    if (!entries_.contains(chunk)) load(lock, chunk);
  }
}

std::shared_ptr<const Chunk> ChunkCache::drop(Entries::iterator entry) {
  std::shared_ptr<const Chunk> chunk = std::move(entry->second.chunk);
  if (chunk) stats_.bytes_held -= chunk->bytes;
  entries_.erase(entry);
  return chunk;
}

void ChunkCache::keep_only(const std::function<bool(std::uint64_t)>& wanted) {
  // Freed after the lock: that may take long, or need another lock.
  std::vector<std::shared_ptr<const Chunk>> dropped;
  const Lock lock(mutex_);
  std::erase_if(ahead_, [&](std::uint64_t chunk) { return !wanted(chunk); });
  for (auto entry = entries_.begin(); entry != entries_.end();) {
    const auto next = std::next(entry);
    if (!entry->second.is_loading() && !wanted(entry->first)) dropped.push_back(drop(entry));
    entry = next;
  }
}

void ChunkCache::keep_recent(std::size_t count) {
  std::vector<std::shared_ptr<const Chunk>> dropped;  // as above
  const Lock lock(mutex_);
  while (entries_.size() > count) {
    const auto oldest =
        std::min_element(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) {
          return std::pair(a.second.is_loading(), a.second.last_wanted) <
                 std::pair(b.second.is_loading(), b.second.last_wanted);
        });
    if (oldest->second.is_loading()) return;
    dropped.push_back(drop(oldest));
  }
}

void ChunkCache::close() {
  const bool can_join = !runs_here();
  std::vector<std::jthread> joined;  // without the lock, which they need
  const Lock lock(mutex_);
  closed_ = true;
  ahead_.clear();
  for (std::jthread& thread : threads_) thread.request_stop();
  if (can_join) joined.swap(threads_);
}

bool ChunkCache::runs_here() const {
  const Lock lock(mutex_);
  return std::any_of(threads_.begin(), threads_.end(), [](const std::jthread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

ChunkCacheStats ChunkCache::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

}  // namespace sweephand
