#include "run/fork_count.hpp"

#include <atomic>
#include <pthread.h>

namespace sweephand {
namespace {

std::atomic<std::uint64_t>& num_forks() noexcept {
  static std::atomic<std::uint64_t> forks{0};
  return forks;
}

void count() { num_forks().fetch_add(1, std::memory_order_relaxed); }

}  // namespace

std::uint64_t fork_count() noexcept {
  [[maybe_unused]] static const int registered = ::pthread_atfork(nullptr, nullptr, count);
  return num_forks().load(std::memory_order_relaxed);
}

}  // namespace sweephand
