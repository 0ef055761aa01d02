// A regular file that is read in place, and that must not change while it is.
#pragma once

#include "base/error.hpp"
#include "read/byte_source.hpp"
#include "read/mapping.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

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
