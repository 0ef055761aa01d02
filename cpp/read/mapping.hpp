// A file in memory that may be cut at any time without ending the process.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

namespace sweephand {

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

}  // namespace sweephand
