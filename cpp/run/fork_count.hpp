// Tells a forked child from its parent, without a call of the system.
#pragma once

#include <cstdint>

namespace sweephand {

// The number of forks between this process and the first caller. A value stored before a fork
// differs from it in the child.
std::uint64_t fork_count() noexcept;

}  // namespace sweephand
