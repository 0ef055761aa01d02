// Memory that minibatches are assembled in, used again when the last array on it is dropped.
#pragma once

#include "run/block_pool.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace sweephand {

// Owned by whoever holds it; it goes back to its pool in the end, if that still lives.
class Buffer {
 public:
  Buffer(BlockPool::Block block, std::weak_ptr<BlockPool> pool)
      : block_(block), pool_(std::move(pool)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() {
    if (const auto pool = pool_.lock()) {
      pool->give_back(block_);
    } else {
      BlockPool::release(block_);
    }
  }

  std::byte* data() const noexcept { return block_.data; }
  std::size_t capacity() const noexcept { return block_.capacity; }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(block_.data);
  }

 private:
  BlockPool::Block block_;
  std::weak_ptr<BlockPool> pool_;
};

class BufferPool {
 public:
  // At least `bytes` bytes, aligned to 64, content undefined.
  std::shared_ptr<Buffer> take(std::size_t bytes) {
    return std::make_shared<Buffer>(blocks_->take(bytes), blocks_);
  }

 private:
  std::shared_ptr<BlockPool> blocks_ = std::make_shared<BlockPool>();
};

}  // namespace sweephand
