// Memory that minibatches are assembled in, used again when the last array on it is dropped.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace sweephand {

class BufferPool;

// Owned by whoever holds it; it goes back to its pool in the end, if that still lives.
class Buffer {
 public:
  Buffer(std::byte* data, std::size_t capacity, std::weak_ptr<BufferPool> pool)
      : data_(data), capacity_(capacity), pool_(std::move(pool)) {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();

  std::byte* data() const noexcept { return data_; }
  std::size_t capacity() const noexcept { return capacity_; }

  template <class T>
  T* as() const noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::byte* data_;
  std::size_t capacity_;
  std::weak_ptr<BufferPool> pool_;
};

// Holds at most as many bytes, free ones included, as were in use at once. Safe for several
// threads; after a fork, a child frees and allocates without the pool, whose lock a thread of
// the parent may have held.
class BufferPool : public std::enable_shared_from_this<BufferPool> {
 public:
  static std::shared_ptr<BufferPool> make();
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool();

  // At least `bytes` bytes, aligned to 64, content undefined.
  std::shared_ptr<Buffer> take(std::size_t bytes);

 private:
  friend class Buffer;
  struct State;

  BufferPool();
  void give_back(std::byte* data, std::size_t capacity) noexcept;

  std::unique_ptr<State> state_;
};

}  // namespace sweephand
