#include "read/file.hpp"

#include "base/error.hpp"
#include "read/change_time.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace sweephand {
namespace {

// A piece of this many bytes is read by a call, which costs as much as mapping its pages, and
// does not count as memory of the process.
constexpr std::size_t kLarge = std::size_t{1} << 18;
constexpr std::chrono::milliseconds kBetweenLooks{1};
constexpr std::chrono::seconds kLongestWait{5};  // beyond any granule of a file system
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Darwin refuses 2 GiB in one call

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

// By its path if there is no descriptor.
struct stat look_at(int descriptor, const std::string& path) {
  struct stat status{};
  const int failed =
      descriptor < 0 ? ::stat(path.c_str(), &status) : ::fstat(descriptor, &status);
  if (failed != 0) fail("look at", path);
  return status;
}

std::int64_t to_ns(const struct timespec& time) {
  constexpr std::int64_t kNanoseconds = 1000000000;
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

FileTag to_tag(const struct stat& status) {
#ifdef __APPLE__
  const struct timespec& mtime = status.st_mtimespec;
#else
  const struct timespec& mtime = status.st_mtim;
#endif
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .mtime_ns = to_ns(mtime),
          .inode = status.st_ino};
}

std::int64_t changed_ns(const struct stat& status) {
#ifdef __APPLE__
  return to_ns(status.st_ctimespec);
#else
  return to_ns(status.st_ctim);
#endif
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

PathStatuses look_at_all(std::span<const std::uint8_t> paths) {
  PathStatuses found;
  while (!paths.empty()) {
    const auto* const path = reinterpret_cast<const char*>(paths.data());
    struct stat status{};
    if (::stat(path, &status) != 0) status = {};
    paths = paths.subspan(std::strlen(path) + 1);
    const FileTag tag = to_tag(status);
    found.modes.push_back(status.st_mode);
    found.sizes.push_back(tag.size);
    found.mtimes_ns.push_back(tag.mtime_ns);
    found.devices.push_back(status.st_dev);
    found.inodes.push_back(tag.inode);
  }
  return found;
}

File::File(std::string path) : path_(std::move(path)), descriptor_(open_file(path_)) {
  try {
    ChangeTime time;
    time.before_look();
    const struct stat status = look_at(descriptor_, path_);
    if (!S_ISREG(status.st_mode)) throw DataError("not a regular file", {.file = path_});
    tag_ = to_tag(status);
    if (time.settles(changed_ns(status))) changed_ns_ = changed_ns(status);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

File::File(std::string path, const FileTag& tag) : File(std::move(path)) {
  expect(tag, tag_, path_);
}

File::~File() { close_descriptor(); }

void File::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool File::map() {
  if (!mapping_ && size() > 0) {
    try {
      mapping_ = std::make_unique<const Mapping>(descriptor_, size());
    } catch (const std::system_error&) {
      return false;  // on certain file systems, or with too many mappings: then it is read
    }
  }
  return true;
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  read_untouched([&] {
    const std::int64_t since = begin_reading();
    read_unchecked(offset, out);
    check_unchanged(since);
  });
}

std::int64_t File::begin_reading() const {
  const std::int64_t known = changed_ns_.load(std::memory_order_acquire);
  return known != kUnsettled ? known : settle();
}

std::int64_t File::settle() const {
  for (ChangeTime time;; std::this_thread::sleep_for(kBetweenLooks)) {
    time.before_look();
    const struct stat status = look_at(descriptor_, path_);
    expect(tag_, to_tag(status), path_);
    const std::int64_t found = changed_ns(status);
    if (time.settles(found)) {
      changed_ns_.store(found, std::memory_order_release);
      return found;
    }
    if (time.elapsed() > kLongestWait) throw TouchedError(path_);
  }
}

void File::check_unchanged(std::int64_t since) const {
  const struct stat status = look_at(descriptor_, path_);
  expect(tag_, to_tag(status), path_);
  const bool touched = changed_ns(status) != since;
  if (torn()) {
    if (touched)
      throw StaleError("the file was cut while it was read, and is whole again: open it again",
                       {.file = path_});
    errno = EIO;  // the disk failed
    fail("read", path_);
  }
  if (!touched) return;
  settle();
  throw TouchedError(path_);
}

void File::read_unchecked(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset)
    throw DataError("the file ends at " + std::to_string(size()) + ", before " +
                        std::to_string(out.size()) + " bytes could be read",
                    {.file = path_, .offset = offset});
  if (mapping_ && (out.size() < kLarge || descriptor_ < 0)) {
    std::memcpy(out.data(), mapping_->bytes().data() + offset, out.size());
    return;
  }
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), std::min(out.size(), kMostAtOnce),
                                  static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_);
    if (count == 0) {  // cut short, so it changed
      expect(tag_, to_tag(look_at(descriptor_, path_)), path_);
      throw DataError("the file ends early", {.file = path_, .offset = offset});
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace sweephand
