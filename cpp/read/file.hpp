// A regular file that is read in place, and that must not change while it is.
#pragma once

#include "base/error.hpp"
#include "read/byte_source.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// A file in memory that may be cut at any time without ending the process.
// The bytes of a file, mapped. The system answers a read of a page that no longer exists,
// because the file was cut or its disk failed, by SIGBUS. A handler then puts zeros in the
// place of that page and all later ones, and the mapping is torn: check `torn` after copying. A
// SIGBUS elsewhere goes to the handler that was installed before the first mapping.
class Mapping {
 public:
  // Maps the first `size` bytes. Throws system_error when the system refuses. REQUIRES: size >
  // 0
  Mapping(int descriptor, std::uint64_t size);
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  ~Mapping();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  // Whether zeros have replaced bytes. Data that were copied before are valid.
  bool torn() const noexcept;

  // The handler's data of a mapping.
  struct Slot {
    std::atomic<bool> taken = false;
    std::atomic<std::uintptr_t> begin = 0;
    std::atomic<std::uintptr_t> end = 0;  // 0 where there is no mapping
    std::atomic<bool> torn = false;
  };

 private:
  std::span<const std::byte> bytes_;
  Slot* slot_ = nullptr;
};

// The time of a file's last change, which reveals every later change.
//
// Size and time of modification do not show that a file was cut and written again: `utime` puts
// the time back. The system's own time of the last change (st_ctime) cannot be set, and every
// change of bytes or size moves it to the clock of the system. But that clock does not advance
// within a tick, and some file systems round it: two changes within a tick show once. So a time
// counts only when it is settled:
//
//   clock N, then a look that finds the time c, N a granule or more beyond c
//     -> a change after the look is given a time of N or later, rounded down: not c
//
// An unsettled time is waited for, until a tick after the last change, for any number of files.
// Where a server's clock decides, and is ahead of ours, the same is known from two looks that
// find the same c and are a granule and a tick of that clock apart: the first came no earlier
// than c, so that the clock is beyond c at the second.
//
// So where a reader has c from a settled look that found the listed size and time of
// modification, reads, looks again and finds all three, nothing was cut, written or put back
// between the looks: a write and a truncation move c, and so does `utime`, without which the
// time of modification would not be the listed one.
//
// c also moves without a change of bytes: by chmod, chown, rename, a new or a lost link. The
// data are then read again, under the new c.
//
// Not revealed: writes of another process that has mapped the file, which the system dates at
// some later time; changes by another machine, on a file system that answers from memory
// without asking its server; changes on a server whose clock is slow.
class ChangeTime {
 public:
  using Clock = std::chrono::steady_clock;

  // To be called before each look at the file.
  void before_look();

  // The time that the look found, in ns. Returns whether it is settled.
  bool settles(std::int64_t found_ns);

  // How long there have been looks.
  Clock::duration elapsed() const { return look_ - begin_; }

 private:
  std::int64_t clock_ns_ = 0;  // of the system, before the look
  std::int64_t found_ns_ = std::numeric_limits<std::int64_t>::min();
  Clock::time_point look_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point first_look_;  // that found it
};

// The identity of a file, by which a changed one is recognised.
struct FileTag {
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
  std::uint64_t inode = 0;

  bool operator==(const FileTag&) const = default;
};

// The system's status of paths, column by column: zeros where it refuses.
struct PathStatuses {
  std::vector<std::uint32_t> modes;
  std::vector<std::uint64_t> sizes;
  std::vector<std::int64_t> mtimes_ns;
  std::vector<std::uint64_t> devices;
  std::vector<std::uint64_t> inodes;
};

// Looks at paths, each of which ends with a zero byte.
PathStatuses look_at_all(std::span<const std::uint8_t> paths);

// The file was touched while it was read, but is still the listed one: the data may mix states
// before and after, and must be read again.
class TouchedError : public StaleError {
 public:
  explicit TouchedError(const std::string& path)
      : StaleError("the file was touched again and again while it was read", {.file = path}) {}
};

// Calls `read`, and again where a file was touched meanwhile, some times.
template <class Read>
auto read_untouched(const Read& read) {
  constexpr int kTries = 8;
  for (int i = 1; i < kTries; ++i) {
    try {
      return read();
    } catch (const TouchedError&) {
      continue;
    }
  }
  return read();
}

// Any number of threads may read at once.
class File final : public ByteSource {
 public:
  // Throws filesystem_error when the file cannot be opened, DataError when it
  // is no regular file.
  explicit File(std::string path);
  // The same, for a file seen before. Throws StaleError when it is another one now.
  File(std::string path, const FileTag& tag);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File() override;

  const std::string& path() const noexcept override { return path_; }
  const FileTag& tag() const noexcept { return tag_; }
  std::uint64_t size() const noexcept override { return tag_.size; }

  // Maps the file into memory, if the system can: reads are then copies. Returns whether it is.
  bool map();

  // The whole file in memory; empty if it is not mapped. Data read there count only when
  // check_unchanged has passed afterwards, for a time that was requested before.
  std::span<const std::byte> mapped() const noexcept {
    return mapping_ ? mapping_->bytes() : std::span<const std::byte>();
  }

  // Gives the descriptor back: a mapped file is then looked at by its path. REQUIRES: mapped
  void close_descriptor() noexcept;

  // Whether a mapped file can no longer be read where it is mapped.
  bool torn() const noexcept { return mapping_ && mapping_->torn(); }

  // Fills `out` from `offset` on. Throws DataError when the file ends before, StaleError when
  // it changed since it was opened, filesystem_error when the system fails.
  void read(std::uint64_t offset, std::span<std::byte> out) const override;

  // The parts of read, for a caller that reads many pieces before it checks once that the file
  // is unchanged. The first returns the settled time of the last change (change_time.hpp),
  // which the last one takes: it throws StaleError when the file changed, TouchedError when it
  // was touched but may be unchanged. A file that was changed just now is waited for, a few ms.
  std::int64_t begin_reading() const;
  void read_unchecked(std::uint64_t offset, std::span<std::byte> out) const;
  void check_unchanged(std::int64_t since) const;

 private:
  static constexpr std::int64_t kUnsettled = std::numeric_limits<std::int64_t>::min();

  std::int64_t settle() const;

  std::string path_;
  int descriptor_ = -1;
  std::unique_ptr<const Mapping> mapping_;
  FileTag tag_;
  mutable std::atomic<std::int64_t> changed_ns_ = kUnsettled;
};

}  // namespace sweephand
