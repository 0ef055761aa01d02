// Tells a forked child from its parent, without a call of the system.
#pragma once

#include <cstdint>

namespace sweephand {

// How many forks lie between this process and the one that asked first. What was remembered
// before a fork differs from it in the child.
std::uint64_t fork_count() noexcept;

}  // namespace sweephand
