#include "read/extents.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <sys/resource.h>
#include <system_error>
#include <utility>

namespace sweephand {

namespace {

constexpr std::size_t kLeastOpen = 256;  // descriptors: far below the usual limit of 1024

// A quarter of the process' limit.
std::size_t most_descriptors() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastOpen;
  return std::max(kLeastOpen, static_cast<std::size_t>(limit.rlim_cur / 4));
}

}  // namespace

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

void read_each(std::span<const ListedFile> files, std::span<const std::uint64_t> offsets,
               std::span<const std::uint64_t> sizes, std::byte behind,
               std::span<std::byte> out) {
  if (offsets.size() != files.size() || sizes.size() != files.size())
    throw std::out_of_range("a piece is a file, an offset and a size");
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (sizes[i] >= out.size()) throw std::out_of_range("the pieces need more room");
    File(files[i].path, files[i].tag).read(offsets[i], out.first(sizes[i]));
    out[sizes[i]] = behind;
    out = out.subspan(sizes[i] + 1);
  }
  if (!out.empty()) throw std::out_of_range("the pieces need less room");
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

void Extents::Reader::bring(std::uint64_t offset, std::uint64_t bytes) {
  for (const std::uint64_t end = offset + bytes; offset < end;) {
    if (offset < begin_ || offset >= end_) enter(offset);
    offset = end_;
  }
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

}  // namespace sweephand
