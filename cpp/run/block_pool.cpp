#include "run/block_pool.hpp"

#include "run/thread_group.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <map>
#include <mutex>
#include <new>
#include <sys/mman.h>

namespace sweephand {
namespace {

using Block = BlockPool::Block;

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallest = 256;
constexpr std::size_t kLooseness = 4;  // a block serves requests down to a quarter of its size
constexpr std::size_t kSlack = 16;     // a large block is not lost to small ones
constexpr int kMostLooks = 8;          // for a block that its taker had before
constexpr std::size_t kHugePage = std::size_t{2} << 20;
constexpr std::size_t kLarge = kHugePage;  // the rest after whole huge pages is in small pages

std::align_val_t alignment_of(std::size_t capacity) noexcept {
  return std::align_val_t{capacity < kLarge ? kAlignment : kHugePage};
}

std::byte* allocate(std::size_t capacity) {
  auto* const data = static_cast<std::byte*>(::operator new(capacity, alignment_of(capacity)));
#ifdef MADV_HUGEPAGE
  // One page fault instead of 512; a system without huge pages refuses, and nothing is lost.
  if (capacity >= kLarge) ::madvise(data, capacity, MADV_HUGEPAGE);
#endif
  return data;
}

// Rounded up to one of eight sizes per power of two, so that requests of nearly equal sizes
// share blocks.
std::size_t round_up(std::size_t bytes) {
  const std::size_t step =
      std::max(kSmallest, std::bit_floor(std::max<std::size_t>(bytes, 1))) / 8;
  return std::max(kSmallest, (bytes + step - 1) / step * step);
}

}  // namespace

struct BlockPool::State {
  explicit State(std::size_t most_free) : most_free_bytes(most_free) {}

  const std::size_t most_free_bytes;
  std::mutex mutex;
  struct Free {
    std::byte* data;
    std::thread::id taker;  // the last user, in whose cache it may be
  };
  std::multimap<std::size_t, Free> free;
  std::size_t free_bytes = 0;
  std::size_t used_bytes = 0;
  std::size_t most_used_bytes = 0;
  const std::uint64_t forks = fork_count();

  // Small blocks go first: they are quick to make again, and large blocks serve small requests,
  // too.
  void trim() noexcept {
    const std::size_t most_bytes = most_used_bytes + most_used_bytes / kSlack;
    const std::size_t most = std::min(most_free_bytes, most_bytes - used_bytes);
    while (free_bytes > most) {
      const auto smallest = free.begin();
      free_bytes -= smallest->first;
      release({smallest->second.data, smallest->first, {}});
      free.erase(smallest);
    }
  }
};

BlockPool::BlockPool(std::size_t most_free) : state_(std::make_unique<State>(most_free)) {}

BlockPool::~BlockPool() {
  for (const auto& [capacity, block] : state_->free) release({block.data, capacity, {}});
}

Block BlockPool::take(std::size_t bytes) {
  std::size_t capacity = round_up(bytes);
  const std::thread::id taker = std::this_thread::get_id();
  if (state_->forks != fork_count()) return {allocate(capacity), capacity, taker};
  std::byte* data = nullptr;
  std::unique_lock lock(state_->mutex);
  auto found = state_->free.lower_bound(capacity);
  if (found != state_->free.end() && found->first / kLooseness <= capacity) {
    int looks = kMostLooks;
    for (auto own = found;
         looks-- > 0 && own != state_->free.end() && own->first / 2 <= capacity; ++own) {
      if (own->second.taker == taker) {
        found = own;
        break;
      }
    }
    capacity = found->first;
    data = found->second.data;
    state_->free_bytes -= capacity;
    state_->free.erase(found);
  } else {
    lock.unlock();
    data = allocate(capacity);
    lock.lock();
  }
  state_->used_bytes += capacity;
  state_->most_used_bytes = std::max(state_->most_used_bytes, state_->used_bytes);
  state_->trim();
  return {data, capacity, taker};
}

void BlockPool::give_back(Block block) noexcept {
  if (state_->forks != fork_count()) {
    release(block);
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  state_->used_bytes -= block.capacity;
  // Before its equals: the last freed block is taken first, as it may be in a cache.
  state_->free.emplace_hint(state_->free.lower_bound(block.capacity), block.capacity,
                            State::Free{block.data, block.taker});
  state_->free_bytes += block.capacity;
  state_->trim();
}

void BlockPool::shrink() noexcept {
  if (state_->forks != fork_count()) return;
  const std::scoped_lock lock(state_->mutex);
  state_->most_used_bytes = state_->used_bytes;
  state_->trim();
}

void BlockPool::release(Block block) noexcept {
  ::operator delete(block.data, alignment_of(block.capacity));
}

}  // namespace sweephand
