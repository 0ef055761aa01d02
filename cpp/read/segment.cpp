#include "read/segment.hpp"

#include <cerrno>
#include <sys/mman.h>
#include <system_error>
#include <utility>

namespace sweephand {

Segment::Segment(int descriptor, std::uint64_t size) {
  // All pages are read soon: one call instead of a fault for every page.
  void* const place =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (place == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map shared memory");
  bytes_ = {static_cast<std::byte*>(place), size};
}

Segment::Segment(Segment&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Segment::~Segment() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace sweephand
