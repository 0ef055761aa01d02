#include "read/held_extents.hpp"

#include "read/extents.hpp"
#include "read/file.hpp"

#include <sys/mman.h>

namespace sweephand {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
[[maybe_unused]] constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack

}  // namespace

HeldExtents::HeldExtents(std::span<const ListedFile> files,
                         std::span<const std::uint64_t> numbers,
                         std::span<const std::uint64_t> offsets,
                         std::span<const std::uint64_t> starts)
    : files_(files), numbers_(numbers), offsets_(offsets), starts_(starts) {
  if (files.size() <= kFew) return;
  places_.assign(numbers.size(), kNowhere);
  holds_all_ = true;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t size = starts[i + 1] - starts[i];
    if (files[numbers[i]].tag.size > kSmall || size > kMostHeld - size_) {
      holds_all_ = false;
      continue;
    }
    places_[i] = size_;
    size_ += size;
  }
  block_ = std::make_unique_for_overwrite<std::byte[]>(size_);
  is_there_ = std::vector<std::atomic<bool>>(numbers.size());
  to_read_.resize(page_of(block_.get() + size_) + 1);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::byte* const bytes = place(i);
    is_there_[i] = starts[i] == starts[i + 1];  // an empty extent is never wanted
    if (bytes == nullptr || is_there_[i]) continue;
    ++num_left_;
    ++to_read_[page_of(bytes)];
  }
}

void HeldExtents::fill(std::size_t extent) {
  const std::scoped_lock lock(mutex_);
  if (is_there_[extent]) return;
  const auto& [path, tag] = files_[numbers_[extent]];
  const std::uint64_t size = starts_[extent + 1] - starts_[extent];
  std::byte* const to = block_.get() + (place(extent) - block_.get());
  File(path, tag).read(offsets_[extent], {to, size});
  is_there_[extent].store(true, std::memory_order_release);
  --num_left_;
  if (--to_read_[page_of(to)] == 0) join_pages(page_of(to));
}

std::size_t HeldExtents::page_of(const std::byte* place) const noexcept {
  return reinterpret_cast<std::uintptr_t>(place) / kHugePage -
         reinterpret_cast<std::uintptr_t>(block_.get()) / kHugePage;
}

// Sequences from anywhere miss the table of small pages, which costs an eighth of the time.
// Huge ones from the start would be cleared, all of them, for the first minibatch.
void HeldExtents::join_pages([[maybe_unused]] std::size_t page) const noexcept {
#ifdef __linux__
  const std::size_t before = reinterpret_cast<std::uintptr_t>(block_.get()) % kHugePage;
  if (page * kHugePage < before || (page + 1) * kHugePage > before + size_) return;
  // A system without support refuses, and nothing is lost.
  ::madvise(block_.get() + (page * kHugePage - before), kHugePage, kCollapse);
#endif
}

}  // namespace sweephand
