// Arrays of numbers in memory, and their elements cut into pieces that threads share.
#pragma once

#include "base/cpu.hpp"
#include "base/element.hpp"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <ranges>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace sweephand {

// `size` contiguous numbers that belong to the caller.
struct Tensor {
  void* data;
  std::size_t size;
  ElementType type;  // a float

  // The elements as T. REQUIRES: T is that of `type`; uint16_t for the types of 16 bits
  template <class T>
  T* as() const noexcept {
    return static_cast<T*>(data);
  }

  // `count` elements from `begin`.
  Tensor part(std::size_t begin, std::size_t count) const noexcept {
    return {.data = static_cast<std::byte*>(data) + begin * element_bytes(type),
            .size = count,
            .type = type};
  }
};

// Two tensors that share memory, by number, or none. An empty tensor shares nothing.
std::optional<std::pair<std::size_t, std::size_t>> find_shared(std::span<const Tensor> tensors);

// A run of elements of one tensor. Results are gathered by piece, in order, so that they do not
// depend on the number of threads.
struct TensorPiece {
  std::size_t tensor;
  std::size_t begin;
  std::size_t size;
};

// Asks for memory that a pass comes to soon: processors by themselves stop at every page.
template <class T>
[[gnu::always_inline]] inline void prefetch_ahead(const T* at) noexcept {
  constexpr std::size_t kAhead = 512;  // bytes; what lies beyond the end is only not there
  const auto ahead = reinterpret_cast<std::uintptr_t>(at) + kAhead;  // no object of ours there
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  __builtin_prefetch(reinterpret_cast<const void*>(ahead));
}

// Of tensors, or of pieces.
std::size_t num_elements(const std::ranges::range auto& parts) noexcept {
  std::size_t sum = 0;
  for (const auto& part : parts) sum += part.size;
  return sum;
}

inline constexpr std::size_t kPieceElements = 65536;

// The least work that is worth starting a thread: some 50 microseconds.
inline constexpr std::size_t kThreadElements = 131072;

// All elements of `tensors`, none longer than kPieceElements; an empty tensor has no piece.
inline std::vector<TensorPiece> cut(std::span<const Tensor> tensors) {
  std::vector<TensorPiece> pieces;
  for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    const std::size_t size = tensors[tensor].size;
    for (std::size_t begin = 0; begin < size; begin += kPieceElements) {
      pieces.push_back(
          {.tensor = tensor, .begin = begin, .size = std::min(kPieceElements, size - begin)});
    }
  }
  return pieces;
}

// Calls work(piece, i) for every piece and its number i, on `num_threads` threads of which the
// caller is one, or on fewer if there is little to do or the system has no more.
// REQUIRES: work does not throw
template <class Work>
void share_out(std::span<const TensorPiece> pieces, std::size_t num_threads, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto take_turns = [&] {
    for (std::size_t i = next++; i < pieces.size(); i = next++) work(pieces[i], i);
  };
  const std::size_t most = std::min(num_threads, 1 + num_elements(pieces) / kThreadElements);
  std::vector<std::thread> others;
  others.reserve(most);
  try {
    while (others.size() + 1 < most) others.emplace_back(take_turns);
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
    // Those that have started, and the caller, take the turns of all.
  }
  take_turns();
  for (std::thread& other : others) other.join();
}

#ifdef __x86_64__
template <class Loop>
[[gnu::target("avx2")]] void run_avx2(const Loop& loop) {
  loop();
}
#endif

// Runs a loop, made of wider instructions by the compiler where the machine has them.
// REQUIRES: it is always_inline
template <class Loop>
void run_wide(const Loop& loop) {
#ifdef __x86_64__
  if (cpu().avx2) return run_avx2(loop);
#endif
  loop();
}

}  // namespace sweephand
