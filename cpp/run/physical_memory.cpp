#include "run/physical_memory.hpp"

#include <cstdint>
#include <limits>
#include <unistd.h>

namespace sweephand {

std::uint64_t physical_memory() noexcept {
  static const std::uint64_t bytes = [] {
    const auto pages = ::sysconf(_SC_PHYS_PAGES);
    const auto page_bytes = ::sysconf(_SC_PAGESIZE);
    if (pages <= 0 || page_bytes <= 0) return std::numeric_limits<std::uint64_t>::max();
    return static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_bytes);
  }();
  return bytes;
}

}  // namespace sweephand
