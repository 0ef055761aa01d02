// A local file, read by place; what was checked when it was opened is checked again at every
// read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sweephand {

class File {
 public:
  // Throws filesystem_error when it cannot be opened, DataError when it is not a regular file.
  explicit File(std::string path);
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  ~File();

  const std::string& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }

  // Fills `out` from `offset` on. Throws StaleError when the file was changed since it was
  // opened, DataError when it ends before. Several threads may read at once.
  void read(std::uint64_t offset, std::span<std::byte> out) const;

 private:
  void check_unchanged() const;

  std::string path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
  std::int64_t modified_ns_ = 0;
};

}  // namespace sweephand
