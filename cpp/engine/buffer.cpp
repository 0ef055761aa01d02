#include "engine/buffer.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <mutex>
#include <new>
#include <tuple>
#include <unistd.h>

namespace sweephand {
namespace {

constexpr std::align_val_t kAlignment{64};
constexpr std::size_t kSmallest = 256;
constexpr std::size_t kLooseness = 4;  // a buffer serves requests of down to a fourth of it

std::byte* allocate(std::size_t capacity) {
  return static_cast<std::byte*>(::operator new(capacity, kAlignment));
}

void release(std::byte* data) noexcept { ::operator delete(data, kAlignment); }

// Rounded up to one of eight sizes per power of two, so that minibatches of nearly equal sizes
// share buffers.
std::size_t round_up(std::size_t bytes) {
  const std::size_t step =
      std::max(kSmallest, std::bit_floor(std::max<std::size_t>(bytes, 1))) / 8;
  return std::max(kSmallest, (bytes + step - 1) / step * step);
}

}  // namespace

struct BufferPool::State {
  std::mutex mutex;
  std::multimap<std::size_t, std::byte*> free;
  std::size_t free_bytes = 0;
  std::size_t used_bytes = 0;
  std::size_t most_used_bytes = 0;
  pid_t process = ::getpid();

  // Small ones go first: they are made anew in no time, and large ones serve small requests
  // too.
  void trim() noexcept {
    while (!free.empty() && used_bytes + free_bytes > most_used_bytes) {
      const auto smallest = free.begin();
      free_bytes -= smallest->first;
      release(smallest->second);
      free.erase(smallest);
    }
  }
};

Buffer::~Buffer() {
  if (const auto pool = pool_.lock()) {
    pool->give_back(data_, capacity_);
  } else {
    release(data_);
  }
}

BufferPool::BufferPool() : state_(std::make_unique<State>()) {}

BufferPool::~BufferPool() {
  for (const auto& [capacity, data] : state_->free) release(data);
}

std::shared_ptr<BufferPool> BufferPool::make() {
  return std::shared_ptr<BufferPool>(
      new BufferPool);  // NOLINT(cppcoreguidelines-owning-memory): the constructor is private
}

std::shared_ptr<Buffer> BufferPool::take(std::size_t bytes) {
  std::size_t capacity = round_up(bytes);
  std::byte* data = nullptr;
  std::unique_lock lock(state_->mutex);
  const auto found = state_->free.lower_bound(capacity);
  if (found != state_->free.end() && found->first / kLooseness <= capacity) {
    std::tie(capacity, data) = *found;
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
  return std::make_shared<Buffer>(data, capacity, weak_from_this());
}

void BufferPool::give_back(std::byte* data, std::size_t capacity) noexcept {
  if (state_->process != ::getpid()) {
    release(data);
    return;
  }
  const std::scoped_lock lock(state_->mutex);
  state_->used_bytes -= capacity;
  state_->free.emplace(capacity, data);
  state_->free_bytes += capacity;
  state_->trim();
}

}  // namespace sweephand
