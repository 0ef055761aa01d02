// Vectors for the columns of chunks.
#pragma once

#include "run/block_pool.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace sweephand {

// The pool of the process. It is never destroyed, because chunks may outlive everything else.
BlockPool& column_pool();

// New elements are not set to zero, and large vectors take their memory from a pool: in a
// window, the next chunk reuses the memory of one that left it.
template <class T>
struct ColumnAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = ColumnAllocator<Other>;  // NOLINT(readability-identifier-naming): as above
  };

  T* allocate(std::size_t count) {
    if (count < kLarge) return std::allocator<T>::allocate(count);
    const BlockPool::Block block = column_pool().take(kHead + count * sizeof(T));
    ::new (static_cast<void*>(block.data)) std::size_t(block.capacity);
    return reinterpret_cast<T*>(block.data + kHead);
  }

  void deallocate(T* elements, std::size_t count) noexcept {
    if (count < kLarge) {
      std::allocator<T>::deallocate(elements, count);
      return;
    }
    std::byte* const data = reinterpret_cast<std::byte*>(elements) - kHead;
    column_pool().give_back({.data = data, .capacity = *reinterpret_cast<std::size_t*>(data)});
  }

  template <class Other>
  void construct(Other* place) noexcept(std::is_nothrow_default_constructible_v<Other>) {
    ::new (static_cast<void*>(place)) Other;
  }
  template <class Other, class... Arguments>
  void construct(Other* place, Arguments&&... arguments) {
    std::construct_at(place, std::forward<Arguments>(arguments)...);
  }

 private:
  static constexpr std::size_t kHead = 64;  // bytes before the elements: the block's capacity
  static constexpr std::size_t kLarge = (std::size_t{1} << 16) / sizeof(T);  // elements
};

template <class T>
using ColumnVector = std::vector<T, ColumnAllocator<T>>;

// Frees spare room of more than a quarter of the used room.
template <class Values>
void free_room(Values& values) {
  if (values.capacity() / 5 > values.size() / 4) values.shrink_to_fit();
}

// Bytes of any value, from the same memory. Not a vector, which visits its elements when it is
// made or dropped unless the compiler sees that there is nothing to do.
std::shared_ptr<std::uint8_t> take_bytes(std::size_t size);

}  // namespace sweephand
