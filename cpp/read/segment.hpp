// Memory that processes hand to each other by a descriptor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

// The first bytes of a memfd, mapped and shared by all processes that map it. The descriptor
// may be closed at once.
class Segment {
 public:
  // Throws system_error when the system refuses. REQUIRES: size > 0, and the memory is as large
  Segment(int descriptor, std::uint64_t size);
  Segment(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  Segment& operator=(Segment&&) = delete;
  ~Segment();

  std::span<std::byte> bytes() const noexcept { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

}  // namespace sweephand
