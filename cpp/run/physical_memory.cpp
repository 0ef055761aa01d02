#include "run/physical_memory.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

namespace sweephand {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

std::uint64_t of_machine() {
  const auto pages = ::sysconf(_SC_PHYS_PAGES);
  const auto page_bytes = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page_bytes <= 0) return kNoLimit;
  return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
}

// The least limit in files of this name, of a control group and those that it is in. "max", and
// groups that a container does not show, are no limit.
std::uint64_t of_groups(const std::filesystem::path& root, const std::string& group,
                        const char* name) {
  std::uint64_t least = kNoLimit;
  for (std::filesystem::path path = std::filesystem::path(group).relative_path();;
       path = path.parent_path()) {
    std::uint64_t limit = 0;
    if (std::ifstream(root / path / name) >> limit) least = std::min(least, limit);
    if (path.empty()) return least;
  }
}

std::uint64_t of_process() {
  struct rlimit limit{};
  if (::getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return kNoLimit;
  return limit.rlim_cur;
}

}  // namespace

// By lines of /proc/self/cgroup: "0::/group", or "4:memory:/group" of the first version.
std::uint64_t container_memory(const std::filesystem::path& root) noexcept try {
  std::uint64_t least = kNoLimit;
  std::ifstream lines(root / "proc/self/cgroup");
  for (std::string line; std::getline(lines, line);) {
    const auto at = line.find(':');
    const auto end = line.find(':', at + 1);
    if (at == std::string::npos || end == std::string::npos) continue;
    const std::string kind = line.substr(at + 1, end - at - 1);
    const std::string group = line.substr(end + 1);
    if (kind.empty())
      least = std::min(least, of_groups(root / "sys/fs/cgroup", group, "memory.max"));
    if (kind == "memory")
      least = std::min(
          least, of_groups(root / "sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
  }
  return least;
} catch (const std::exception&) {
  return kNoLimit;
}

std::uint64_t physical_memory() noexcept {
  static const std::uint64_t bytes = std::min(of_machine(), container_memory("/"));
  return std::min(bytes, of_process());
}

}  // namespace sweephand
