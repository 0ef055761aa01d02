// Pieces of many small files, which are read once and then held.
//
//   run     | file 0 | file 1      | file 2 |     as Extents has it
//   block   | 11111  | not yet     | 222222 |     the same places, if all are held
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sweephand {

struct ListedFile;

// If there are many files, small ones are not checked any more once they were read, as asking
// the system whether one has changed takes longer than copying from it. They are stored one
// after the other in one block. Thread-safe.
class HeldExtents {
 public:
  static constexpr std::size_t kFew = 1024;
  static constexpr std::size_t kSmall = std::size_t{64} << 10;
  static constexpr std::size_t kMostHeld = std::size_t{128} << 20;

  // Those of an Extents, which outlives this. Of few files, or large ones, or where there is no
  // room, none are held.
  HeldExtents(std::span<const ListedFile> files, std::span<const std::uint64_t> numbers,
              std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> starts);

  // The place of a piece, also before it is read; null if it is not held.
  const std::byte* place(std::size_t extent) const noexcept {
    if (holds_all_) return block_.get() + starts_[extent];
    return places_.empty() || places_[extent] == kNowhere ? nullptr
                                                          : block_.get() + places_[extent];
  }

  // The same, and reads it if it is held and was not read yet. Throws StaleError when its file
  // has changed since it was listed, as File::read does otherwise.
  const std::byte* read(std::size_t extent) {
    const std::byte* const bytes = place(extent);
    if (bytes != nullptr && !is_there_[extent].load(std::memory_order_acquire)) fill(extent);
    return bytes;
  }

  // The whole run, if all pieces of it are held; else null.
  const std::byte* whole() const noexcept { return holds_all_ ? block_.get() : nullptr; }

  // No piece that is held is left to be read.
  bool all_there() const noexcept { return num_left_.load(std::memory_order_acquire) == 0; }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  void fill(std::size_t extent);
  std::size_t page_of(const std::byte* place) const noexcept;
  void join_pages(std::size_t page) const noexcept;

  std::span<const ListedFile> files_;
  std::span<const std::uint64_t> numbers_;
  std::span<const std::uint64_t> offsets_;
  std::span<const std::uint64_t> starts_;
  bool holds_all_ = false;
  std::vector<std::uint64_t> places_;   // in the block, of every piece; empty if none is held
  std::unique_ptr<std::byte[]> block_;  // NOLINT(*-avoid-c-arrays): a vector would fill it
  std::vector<std::atomic<bool>> is_there_;
  std::atomic<std::size_t> num_left_ = 0;
  std::uint64_t size_ = 0;              // of the block
  std::mutex mutex_;                    // of who reads a file; guards all below
  std::vector<std::uint32_t> to_read_;  // pieces that begin in each huge page
};

}  // namespace sweephand
