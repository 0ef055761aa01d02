// Memory that is used again: making and zeroing its pages anew costs as much as filling them.
#pragma once

#include <cstddef>
#include <limits>
#include <memory>
#include <thread>

namespace sweephand {

// Safe for several threads; after a fork, a child frees and allocates without the pool, whose
// lock a thread of the parent may have held.
class BlockPool {
 public:
  struct Block {
    std::byte* data;
    std::size_t capacity;
    std::thread::id taker;
  };

  // Holds little more bytes, free ones included, than were in use at once: a sixteenth at most;
  // and at most `most_free` free ones.
  explicit BlockPool(std::size_t most_free = std::numeric_limits<std::size_t>::max());
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;
  ~BlockPool();

  // At least `bytes` bytes, aligned to 64, content undefined. Throws std::bad_alloc.
  Block take(std::size_t bytes);

  // REQUIRES: take() of this pool gave it
  void give_back(Block block) noexcept;

  // Forgets the earlier peak of use, and frees the memory held for it.
  void shrink() noexcept;

  // Frees a block whose pool is no more.
  static void release(Block block) noexcept;

 private:
  struct State;

  std::unique_ptr<State> state_;
};

}  // namespace sweephand
