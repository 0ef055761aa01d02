#include "read/file.hpp"

#include "base/error.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <system_error>
#include <unistd.h>
#include <utility>

namespace sweephand {
namespace {

[[noreturn]] void fail(const char* what, const std::string& path) {
  throw std::filesystem::filesystem_error(what, path, {errno, std::generic_category()});
}

std::int64_t modified_ns(const struct stat& status) {
  return std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
}

}  // namespace

File::File(std::string path) : path_(std::move(path)) {
  // Without waiting, so that a pipe cannot block us before it is refused.
  descriptor_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor_ < 0) fail("open", path_);
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw DataError("not a regular file", {.file = path_});
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  modified_ns_ = modified_ns(status);
}

File::~File() { ::close(descriptor_); }

void File::check_unchanged() const {
  struct stat status{};
  if (::fstat(descriptor_, &status) != 0) fail("stat", path_);
  if (static_cast<std::uint64_t>(status.st_size) != size_ ||
      modified_ns(status) != modified_ns_) {
    throw StaleError("the file was changed since it was opened: it had " +
                         std::to_string(size_) + " bytes, now it has " +
                         std::to_string(status.st_size) + "; open it again",
                     {.file = path_});
  }
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  check_unchanged();
  while (!out.empty()) {
    const ssize_t got =
        ::pread(descriptor_, out.data(), out.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail("read", path_);
    if (got == 0) {
      throw DataError("the file ends " + std::to_string(out.size()) + " bytes too early",
                      {.file = path_, .offset = offset});
    }
    offset += static_cast<std::uint64_t>(got);
    out = out.subspan(static_cast<std::size_t>(got));
  }
}

}  // namespace sweephand
