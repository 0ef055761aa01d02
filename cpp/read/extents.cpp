#include "read/extents.hpp"

#include "base/error.hpp"
#include "read/column.hpp"
#include "read/mapped_offsets.hpp"
#include "run/physical_memory.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <functional>
#include <stdexcept>
#include <sys/mman.h>
#include <sys/resource.h>
#include <system_error>

namespace sweephand {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;
[[maybe_unused]] constexpr int kCollapse = 25;  // MADV_COLLAPSE, which older headers lack

constexpr std::size_t kLeastOpen = 256;  // descriptors: far below the usual limit of 1024

// A quarter of the process' limit.
std::size_t most_descriptors() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastOpen;
  return std::max(kLeastOpen, static_cast<std::size_t>(limit.rlim_cur / 4));
}

using Offsets = std::vector<std::int64_t>;

struct OwnedColumn {
  ColumnVector<std::byte> values;
  Offsets sample_offsets;
  Offsets element_offsets;
};

// Shifts offsets to begin at 0. Those of a file may be any numbers, whose differences wrap.
Offsets rebased(Offsets offsets) {
  const auto base = static_cast<std::uint64_t>(offsets.front());
  for (std::int64_t& one : offsets)
    one = static_cast<std::int64_t>(static_cast<std::uint64_t>(one) - base);
  return offsets;
}

// The offsets of sequences [first, first + count), and the end of the last, which is within the
// samples of the column.
Offsets bounds_of(const Column& column, std::uint64_t first, std::uint64_t count) {
  if (column.sample_offsets == nullptr)
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + count)};
  Offsets bounds(count + 1);
  read_offsets(column, [&] {
    std::copy_n(column.sample_offsets + first, bounds.size(), bounds.begin());
  });
  if (!ascends_within(bounds.front(), bounds.back(), column.num_samples))
    throw DataError("the offsets of its sequences are [" + std::to_string(bounds.front()) +
                    ", " + std::to_string(bounds.back()) + "), but there are " +
                    std::to_string(column.num_samples) + " samples");
  return bounds;
}

// Sequences [first, first + count) of a column that lies in extents, kept by `owned`.
Column read(const Column& column, std::uint64_t first, std::uint64_t count,
            OwnedColumn& owned) {
  Offsets bounds = bounds_of(column, first, count);
  const auto begin = static_cast<std::uint64_t>(bounds.front());
  const auto end = static_cast<std::uint64_t>(bounds.back());
  std::uint64_t first_element = begin * column.sample_elements;
  std::uint64_t last_element = end * column.sample_elements;
  if (column.element_offsets != nullptr) {
    const std::span offsets(column.element_offsets + begin, end - begin + 1);
    first_element = static_cast<std::uint64_t>(offsets.front());
    last_element = static_cast<std::uint64_t>(offsets.back());
    owned.element_offsets = rebased({offsets.begin(), offsets.end()});
  }
  if (column.sample_offsets != nullptr) owned.sample_offsets = rebased(std::move(bounds));
  if (exceeds_memory(last_element - first_element, column.element_bytes))
    throw DataError("the chunk has " + std::to_string(last_element - first_element) +
                    " elements of " + std::to_string(column.element_bytes) +
                    " bytes, which is more than the memory there is");
  owned.values.resize((last_element - first_element) * column.element_bytes);
  read_untouched([&] {
    Extents::Reader reader(*column.extents);
    reader.read(first_element * column.element_bytes, owned.values);
    reader.check_unchanged();
  });
  Column result = column;
  result.extents = nullptr;
  result.mapped_offsets = nullptr;
  result.values = owned.values.data();
  result.num_sequences = count;
  result.num_samples = end - begin;
  result.num_elements = last_element - first_element;
  if (column.sample_offsets != nullptr) result.sample_offsets = owned.sample_offsets.data();
  if (column.element_offsets != nullptr) result.element_offsets = owned.element_offsets.data();
  return result;
}

// The same for a column that is held, in place.
Column part(const Column& column, std::uint64_t first, std::uint64_t count) {
  Column result = column;
  result.num_sequences = count;
  if (column.sample_offsets != nullptr) {
    result.sample_offsets += first;
    return result;
  }
  result.num_samples = count;
  if (column.element_offsets != nullptr) {
    result.element_offsets += first;
  } else {
    result.values += first * column.sample_elements * column.element_bytes;
  }
  return result;
}

}  // namespace

HeldExtents::HeldExtents(std::span<const ListedFile> files,
                         std::span<const std::uint64_t> numbers,
                         std::span<const std::uint64_t> offsets,
                         std::span<const std::uint64_t> starts)
    : files_(files), numbers_(numbers), offsets_(offsets), starts_(starts) {
  if (files.size() <= kFew) return;
  places_.assign(numbers.size(), kNowhere);
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const std::uint64_t size = starts[i + 1] - starts[i];
    if (files[numbers[i]].tag.size > kSmall || size > kMostHeld - size_) continue;
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

FilePool::FilePool(std::vector<ListedFile> files)
    : files_(std::move(files)),
      most_open_(most_descriptors()),
      staying_(files_.size()),
      open_(files_.size()) {}

std::shared_ptr<const File> FilePool::open_anew(std::uint64_t number) {
  const std::scoped_lock lock(mutex_);
  std::shared_ptr<const File>& file = open_[number];
  if (file && !file->torn()) return file;
  const bool known = file != nullptr;
  const bool stayed = staying_[number].load() != nullptr;
  if (stayed) kept_.push_back(file);
  const auto opened = std::make_shared<File>(files_[number].path, files_[number].tag);
  can_map_ = can_map_ && opened->map();
  file = opened;
  const bool stays = can_map_ && files_.size() <= kMaxMapped;
  if (can_map_ && (num_descriptors_ >= most_open_ || !stays)) {
    opened->close_descriptor();  // it is checked by its path, which takes longer
  } else if (stays && !stayed) {
    ++num_descriptors_;
  }
  if (stays) {
    staying_[number].store(opened.get(), std::memory_order_release);
    return opened;
  }
  if (!known) opened_.push_back(number);
  while (opened_.size() > (can_map_ ? kMaxMapped : kLeastOpen)) {
    open_[opened_.front()].reset();
    opened_.pop_front();
  }
  return opened;
}

Extents::Extents(std::vector<ListedFile> files, std::span<const std::uint64_t> numbers,
                 std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> bytes)
    : numbers_(numbers.begin(), numbers.end()),
      offsets_(offsets.begin(), offsets.end()),
      starts_{0} {
  if (offsets.size() != numbers.size() || bytes.size() != numbers.size()) {
    throw std::invalid_argument("an extent is a file, an offset and a size");
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] >= files.size()) throw std::invalid_argument("an extent names no file");
    starts_.push_back(starts_.back() + bytes[i]);
  }
  extent_guess_ = EvenGuess(numbers_.size(), num_bytes());
  files_ = std::make_shared<FilePool>(std::move(files));
  held_ = std::make_unique<HeldExtents>(files_->files(), numbers_, offsets_, starts_);
  if (numbers_.size() != 1 || num_bytes() == 0) return;
  std::shared_ptr<const File> keeper;
  const std::span mapped = files_->open(numbers_[0], keeper).mapped();
  whole_ = std::move(keeper);
  if (offsets_[0] <= mapped.size() && num_bytes() <= mapped.size() - offsets_[0])
    in_memory_ = mapped.data() + offsets_[0];
}

// Makes the extent that holds byte `offset` the current one.
void Extents::Reader::enter(std::uint64_t offset) {
  const std::vector<std::uint64_t>& starts = extents_.starts_;
  const std::size_t extent = extents_.extent_guess_.find(starts, offset);
  begin_ = starts[extent];
  end_ = starts[extent + 1];
  offset_ = extents_.offsets_[extent];
  held_ = extents_.held_->read(extent);
  if (held_ != nullptr) return;
  const std::uint64_t number = extents_.numbers_[extent];
  if (number_ == number) return;
  leave();
  touch(number, extents_.files_->open(number, keeper_));
  number_ = number;
}

void Extents::Reader::touch(std::uint64_t number, const File& file) {
  touched_.push_back({.number = number, .since = file.begin_reading()});
  file_ = &file;
}

// From here on it may be closed, or mapped again if it was cut: its zeros are checked now.
void Extents::Reader::leave() {
  if (file_ != nullptr && file_->torn()) torn_ = file_->path();
  file_ = nullptr;
}

void Extents::Reader::read_in_memory() {
  if (!in_memory_) touch(extents_.numbers_[0], *extents_.whole_);
  in_memory_ = true;
}

void Extents::Reader::prefetch_place(std::uint64_t offset) const noexcept {
  if (offset >= extents_.num_bytes()) return;
  const std::size_t guess = extents_.extent_guess_.guess(offset);
  __builtin_prefetch(&extents_.starts_[guess]);
  __builtin_prefetch(&extents_.offsets_[guess]);
  __builtin_prefetch(&extents_.numbers_[guess]);
}

const std::byte* Extents::Reader::place(std::uint64_t offset) const noexcept {
  if (offset >= extents_.num_bytes()) return nullptr;
  const std::size_t extent = extents_.extent_guess_.find(extents_.starts_, offset);
  const std::byte* const held = extents_.held_->place(extent);
  if (held != nullptr) return held + (offset - extents_.starts_[extent]);
  const File* const file = extents_.files_->staying(extents_.numbers_[extent]);
  if (file == nullptr) return nullptr;
  const std::uint64_t inside = extents_.offsets_[extent] + (offset - extents_.starts_[extent]);
  const std::span<const std::byte> mapped = file->mapped();
  return inside < mapped.size() ? mapped.data() + inside : nullptr;
}

void Extents::Reader::read(std::uint64_t offset, std::span<std::byte> out) {
  while (!out.empty()) {
    if (offset < begin_ || offset >= end_) enter(offset);
    const std::span part = out.first(std::min<std::uint64_t>(out.size(), end_ - offset));
    if (held_ != nullptr) {
      std::memcpy(part.data(), held_ + (offset - begin_), part.size());
    } else {
      file_->read_unchecked(offset_ + (offset - begin_), part);
    }
    out = out.subspan(part.size());
    offset += part.size();
  }
}

void Extents::Reader::check_unchanged() {
  leave();
  std::ranges::sort(touched_);
  const auto end = std::unique(touched_.begin(), touched_.end());
  // A file that was closed meanwhile is opened again, which checks it, too.
  std::for_each(touched_.begin(), end, [&](const Touched& one) {
    const File& file =
        in_memory_ ? *extents_.whole_ : extents_.files_->open(one.number, keeper_);
    file.check_unchanged(one.since);
  });
  if (torn_.empty()) return;  // else nothing was changed: the disk failed
  throw std::filesystem::filesystem_error("cannot read", torn_,
                                          std::make_error_code(std::errc::io_error));
}

namespace {

void gather_once(const Extents& extents, std::span<const std::uint64_t> offsets,
                 std::span<const std::uint64_t> sizes, std::span<std::byte> out) {
  Extents::Reader reader(extents);
  for (std::size_t i = 0; i < offsets.size();) {
    const std::uint64_t begin = offsets[i];
    std::uint64_t size = sizes[i++];
    while (i < offsets.size() && offsets[i] == begin + size) size += sizes[i++];
    if (begin > extents.num_bytes() || size > extents.num_bytes() - begin || size > out.size())
      throw std::out_of_range("a run must end within the bytes there are");
    reader.read(begin, out.first(size));
    out = out.subspan(size);
  }
  reader.check_unchanged();
}

}  // namespace

void gather(const Extents& extents, std::span<const std::uint64_t> offsets,
            std::span<const std::uint64_t> sizes, std::span<std::byte> out) {
  read_untouched([&] { gather_once(extents, offsets, sizes, out); });
}

ExtentChunks::ExtentChunks(std::shared_ptr<const Chunk> corpus,
                           std::vector<std::uint64_t> starts)
    : corpus_(std::move(corpus)), starts_(std::move(starts)) {
  if (starts_.empty() || starts_.front() != 0 || starts_.back() != corpus_->num_sequences ||
      std::ranges::adjacent_find(starts_, std::greater_equal{}) != starts_.end())
    throw std::invalid_argument("the starts of chunks must ascend from 0 to the end");
}

std::shared_ptr<const Chunk> ExtentChunks::load(std::uint64_t chunk) {
  const std::uint64_t first = starts_.at(chunk);
  const std::uint64_t count = starts_.at(chunk + 1) - first;
  struct Owner {
    std::shared_ptr<const Chunk> corpus;  // of what is held
    std::deque<OwnedColumn> columns;
  };
  const auto owner = std::make_shared<Owner>(Owner{.corpus = corpus_, .columns = {}});
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = count;
  for (const Column& column : corpus_->columns) {
    if (column.extents == nullptr) {
      result->columns.push_back(part(column, first, count));
      continue;
    }
    OwnedColumn& owned = owner->columns.emplace_back();
    result->columns.push_back(read(column, first, count, owned));
    result->bytes +=
        owned.values.size() +
        (owned.sample_offsets.size() + owned.element_offsets.size()) * sizeof(std::int64_t);
  }
  const auto end_skipped = std::ranges::lower_bound(corpus_->skipped, first + count);
  for (auto at = std::ranges::lower_bound(corpus_->skipped, first); at != end_skipped; ++at)
    result->skipped.push_back(*at - first);
  result->owner = owner;
  return result;
}

}  // namespace sweephand
