// How much memory the machine has.
#pragma once

#include <cstdint>

namespace sweephand {

// In bytes. What a file says is longer than this cannot be read into memory, whatever else is
// there; to ask for it would end the process where the system promises more than it has.
std::uint64_t physical_memory() noexcept;

}  // namespace sweephand
