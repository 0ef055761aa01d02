#include "read/file.hpp"

#include "base/error.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sweephand {
namespace {

[[noreturn]] void fail(const std::string& action, const std::string& path) {
  throw std::filesystem::filesystem_error("cannot " + action, path,
                                          std::error_code(errno, std::generic_category()));
}

int open_file(const std::string& path) {
  // Without O_NONBLOCK a pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("open", path);
  return descriptor;
}

struct stat look_at(int descriptor, const std::string& path) {
  struct stat status{};
  if (::fstat(descriptor, &status) != 0) fail("look at", path);
  return status;
}

FileTag to_tag(const struct stat& status) {
  constexpr std::int64_t kNanoseconds = 1000000000;
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .mtime_ns = status.st_mtim.tv_sec * kNanoseconds + status.st_mtim.tv_nsec,
          .inode = status.st_ino};
}

std::string describe(const FileTag& tag) {
  return std::to_string(tag.size) + " bytes, mtime " + std::to_string(tag.mtime_ns) +
         " ns, inode " + std::to_string(tag.inode);
}

void expect(const FileTag& expected, const FileTag& found, const std::string& path) {
  if (found == expected) return;
  throw StaleError("the file changed: expected " + describe(expected) + ", found " +
                       describe(found) + "; build its index again",
                   {.file = path});
}

}  // namespace

File::File(std::string path) : path_(std::move(path)), descriptor_(open_file(path_)) {
  try {
    const struct stat status = look_at(descriptor_, path_);
    if (!S_ISREG(status.st_mode)) throw DataError("not a regular file", {.file = path_});
    tag_ = to_tag(status);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

File::File(std::string path, const FileTag& tag) : File(std::move(path)) {
  expect(tag, tag_, path_);
}

File::~File() {
  if (mapped_ != nullptr) ::munmap(const_cast<std::byte*>(mapped_), size());
  ::close(descriptor_);
}

void File::map() {
  if (mapped_ != nullptr || size() == 0) return;
  void* const place = ::mmap(nullptr, size(), PROT_READ, MAP_SHARED, descriptor_, 0);
  if (place == MAP_FAILED) fail("map", path_);
  mapped_ = static_cast<const std::byte*>(place);
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  read_unchecked(offset, out);
  check_unchanged();
}

void File::check_unchanged() const { expect(tag_, to_tag(look_at(descriptor_, path_)), path_); }

void File::read_unchecked(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset)
    throw DataError("the file ends at " + std::to_string(size()) + ", before " +
                        std::to_string(out.size()) + " bytes could be read",
                    {.file = path_, .offset = offset});
  if (mapped_ != nullptr) {
    std::memcpy(out.data(), mapped_ + offset, out.size());
    return;
  }
  while (!out.empty()) {
    const ssize_t count =
        ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_);
    if (count == 0) {  // cut short, so it changed
      check_unchanged();
      throw DataError("the file ends early", {.file = path_, .offset = offset});
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace sweephand
