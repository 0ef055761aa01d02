// Memory for assembling minibatches, reused when the last array over it is dropped.
#pragma once

#include "run/block_pool.hpp"

#include <cstddef>
#include <memory>
#include <utility>

namespace sweephand {

// Bytes that live as long as anyone holds them, or a part of them. False if there are none.
class Buffer {
 public:
  Buffer() = default;
  Buffer(std::byte* data, std::size_t size, std::shared_ptr<const void> owner)
      : data_(data), size_(size), owner_(std::move(owner)) {}

  explicit operator bool() const noexcept { return data_ != nullptr; }
  std::byte* data() const noexcept { return data_; }
  std::size_t size() const noexcept { return size_; }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

  // REQUIRES: begin + size <= size()
  Buffer part(std::size_t begin, std::size_t size) const {
    return data_ == nullptr ? Buffer() : Buffer(data_ + begin, size, owner_);
  }

 private:
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  std::shared_ptr<const void> owner_;
};

class BufferPool {
 public:
  // `bytes` bytes, aligned to 64, content undefined. They go back to the pool in the end, if
  // that still lives.
  Buffer take(std::size_t bytes) {
    const BlockPool::Block block = blocks_->take(bytes);
    const auto give_back = [block, weak = std::weak_ptr(blocks_)](const std::byte*) {
      if (const auto pool = weak.lock()) {
        pool->give_back(block);
      } else {
        BlockPool::release(block);
      }
    };
    return {block.data, bytes, std::shared_ptr<const std::byte>(block.data, give_back)};
  }

  // See BlockPool.
  void shrink() noexcept { blocks_->shrink(); }

 private:
  std::shared_ptr<BlockPool> blocks_ = std::make_shared<BlockPool>();
};

}  // namespace sweephand
