#include "read/chunk_cache.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sweephand {

std::uint64_t ChunkParts::chunk_of(std::uint64_t part) const {
  if (starts.empty()) return part;
  // The last start not beyond it: empty chunks share one.
  const auto after = std::ranges::upper_bound(starts, part);
  return static_cast<std::uint64_t>(after - starts.begin()) - 1;
}

std::vector<std::uint64_t> ChunkParts::parts_of(std::span<const std::uint64_t> chunks) const {
  if (starts.empty()) return {chunks.begin(), chunks.end()};
  std::vector<std::uint64_t> parts;
  for (const std::uint64_t chunk : chunks) {
    for (std::uint64_t part = starts[chunk]; part < starts[chunk + 1]; ++part)
      parts.push_back(part);
  }
  return parts;
}

// A chunk of the first member stays as long as a block that holds it is open: in a lane of the
// planner, or in a plan that is being carried out.
bool Retention::wants(const Demand& demand, std::uint64_t chunk) const {
  return demand.wants_all || !stays_while_open(demand) ||
         demand.chunks.contains(parts.chunk_of(chunk));
}

// Otherwise the most recently used chunks stay, as many as this. In an order of the corpus'
// own: as many as are open, and room for the minibatches that are being made, which reach
// further chunks. The chunks of other members may be in any order; they get twice the room that
// they need in the order of the first.
std::uint64_t Retention::most_recent(const Demand& demand) const {
  if (is_first) return open_chunks + demand.num_making * demand.num_used;
  const std::uint64_t open = demand.in_given_order
                                 ? open_chunks + demand.num_making * demand.num_used
                                 : demand.chunks.size();
  return 2 * (open * num_chunks / first_chunks + open);
}

std::vector<std::uint64_t> Retention::leaving(const Demand& demand,
                                              std::span<const HeldChunk> held) const {
  std::vector<HeldChunk> leaving;
  if (demand.wants_all) return {};
  std::ranges::copy_if(held, std::back_inserter(leaving), [&](const HeldChunk& one) {
    return !one.is_loading && !(stays_while_open(demand) && wants(demand, one.chunk));
  });
  if (!stays_while_open(demand)) {
    const std::size_t most = std::min<std::uint64_t>(held.size(), most_recent(demand));
    std::ranges::sort(leaving, {}, &HeldChunk::last_wanted);
    leaving.resize(std::min(leaving.size(), held.size() - most));
  }
  std::vector<std::uint64_t> chunks(leaving.size());
  std::ranges::transform(leaving, chunks.begin(), &HeldChunk::chunk);
  return chunks;
}

// Makes an entry and fills it with the chunk, or throws and leaves none. REQUIRES: there is no
// entry yet
ChunkCache::Entry& ChunkCache::load(Lock& lock, std::uint64_t chunk) {
  entries_[chunk].last_wanted = ++clock_;
  is_settled_ = false;  // its chunk may not be wanted any more
  std::shared_ptr<const Chunk> made;
  const WorkClock clock;
  try {
    const Unlocked unlocked(lock);
    made = deserializer_->load(chunk);
  } catch (...) {
    entries_.erase(chunk);
    changed_.notify_all();
    throw;
  }
  changed_.notify_all();
  stats_.load += clock.elapsed();
  ++stats_.chunks_loaded;
  stats_.bytes_loaded += made->bytes;
  stats_.bytes_held += made->bytes;
  Entry& entry = entries_[chunk];
  entry.chunk = std::move(made);
  return entry;
}

std::shared_ptr<const Chunk> ChunkCache::get(std::uint64_t chunk, const Turn& turn) {
  Lock lock(mutex_);
  auto found = entries_.end();
  const auto is_known = [&] {
    found = entries_.find(chunk);
    return found == entries_.end() || !found->second.is_loading();
  };
  wait_until(changed_, lock, turn.poll(), is_known);
  if (found == entries_.end() && in_turns_) {
    {
      const Unlocked unlocked(lock);
      turn.wait();
    }
    wait_until(changed_, lock, turn.poll(), is_known);
  }
  if (found == entries_.end()) return load(lock, chunk).chunk;
  ++stats_.chunk_hits;
  found->second.last_wanted = ++clock_;
  return found->second.chunk;
}

void ChunkCache::load_ahead(std::span<const std::uint64_t> chunks, bool at_once) {
  const Lock lock(mutex_);
  if (closed_ || num_threads_ == 0) return;
  std::vector<std::uint64_t> lacking;
  std::ranges::copy_if(chunks, std::back_inserter(lacking),
                       [this](auto chunk) { return !entries_.contains(chunk); });
  if (lacking.empty()) return;
  if (at_once) {
    const std::unordered_set<std::uint64_t> now(lacking.begin(), lacking.end());
    std::erase_if(ahead_, [&](auto chunk) { return now.contains(chunk); });
    ahead_.insert(ahead_.begin(), lacking.begin(), lacking.end());
  } else {
    const std::unordered_set<std::uint64_t> announced(ahead_.begin(), ahead_.end());
    std::ranges::copy_if(lacking, std::back_inserter(ahead_),
                         [&](auto chunk) { return !announced.contains(chunk); });
  }
  if (ahead_.empty()) return;
  for (std::size_t used = num_idle_; used < ahead_.size() && threads_.size() < num_threads_;
       ++used) {
    if (!threads_.start([this] { work(); })) break;
  }
  if (threads_.size() == 0) ahead_.clear();  // get() loads them
  changed_.notify_all();
}

void ChunkCache::work() {
  Lock lock(mutex_);
  while (true) {
    ++num_idle_;
    changed_.wait(lock, [&] { return closed_ || !ahead_.empty(); });
    --num_idle_;
    if (closed_) return;
    const std::uint64_t chunk = ahead_.front();
    ahead_.pop_front();
    if (entries_.contains(chunk)) continue;
    try {
      load(lock, chunk);
    } catch (...) {  // NOLINT(bugprone-empty-catch)
      // get() raises it again, if its cause remains.
    }
  }
}

void ChunkCache::settle(const Demand& demand) {
  // Freed after the lock is released: that may take long, or need another lock.
  std::vector<std::shared_ptr<const Chunk>> dropped;
  const Lock lock(mutex_);
  if (is_settled_ && retention_.stays_while_open(demand) &&
      retention_.stays_while_open(settled_) && demand.wants_all == settled_.wants_all &&
      demand.chunks == settled_.chunks)
    return;
  settled_ = demand;
  is_settled_ = true;
  std::erase_if(ahead_, [&](auto chunk) { return !retention_.wants(demand, chunk); });
  std::vector<HeldChunk> held;
  held.reserve(entries_.size());
  for (const auto& [number, entry] : entries_) {
    held.push_back({.chunk = number,
                    .bytes = entry.is_loading() ? 0 : entry.chunk->bytes,
                    .last_wanted = entry.last_wanted,
                    .is_loading = entry.is_loading()});
  }
  for (const std::uint64_t number : retention_.leaving(demand, held)) {
    dropped.push_back(std::move(entries_.extract(number).mapped().chunk));
    stats_.bytes_held -= dropped.back()->bytes;
  }
}

bool ChunkCache::close(std::chrono::duration<double> limit) {
  {
    const Lock lock(mutex_);
    closed_ = true;
    ahead_.clear();
    changed_.notify_all();
  }
  return threads_.end(limit);
}

LoadStats ChunkCache::stats() const {
  const Lock lock(mutex_);
  return stats_;
}

}  // namespace sweephand
