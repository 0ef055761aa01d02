// The memory that this process may have.
#pragma once

#include <cstdint>
#include <filesystem>

namespace sweephand {

// In bytes: of the machine, or less where a container (its memory.max) or the process
// (RLIMIT_AS) may have less. Data that a file declares to be longer than this cannot be read
// into memory; requesting it would end the process on a system that promises more memory than
// it has.
std::uint64_t physical_memory() noexcept;

// True if `count` items are more than that. Asked of every sequence: a mebibyte is taken to be
// there, as the limit of the process costs a call of the system.
inline bool exceeds_memory(std::uint64_t count, std::uint64_t item_bytes) noexcept {
  constexpr std::uint64_t kSmall = 1 << 20;
  if (item_bytes == 0 || count <= kSmall / item_bytes) return false;
  return count > physical_memory() / item_bytes;
}

// The least limit of the control groups that this process is in, of either version; 2^64 - 1
// where none is set. `root` is the root of the file system.
std::uint64_t container_memory(const std::filesystem::path& root) noexcept;

}  // namespace sweephand
