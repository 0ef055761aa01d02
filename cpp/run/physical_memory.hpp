// The memory that this process may have.
#pragma once

#include <cstdint>

namespace sweephand {

// In bytes: of the machine, or less where a container (its memory.max) or the process
// (RLIMIT_AS) may have less. Data that a file declares to be longer than this cannot be read
// into memory; requesting it would end the process on a system that promises more memory than
// it has.
std::uint64_t physical_memory() noexcept;

}  // namespace sweephand
