// How long a thread works at something, and how much of that it waits: for a disk, a network, a
// lock or a processor.
#pragma once

#include <chrono>
#include <cstdint>
#include <ctime>

namespace sweephand {

struct WorkTime {
  std::uint64_t total_ns = 0;
  std::uint64_t busy_ns = 0;  // on a processor

  WorkTime& operator+=(const WorkTime& other) noexcept {
    total_ns += other.total_ns;
    busy_ns += other.busy_ns;
    return *this;
  }
};

// Measures the calling thread from its construction on.
class WorkClock {
 public:
  // `may_wait`: false where the work waits for nothing, which saves two calls of the system.
  explicit WorkClock(bool may_wait = true)
      : may_wait_(may_wait), begin_(Clock::now()), busy_(may_wait ? busy_ns() : 0) {}

  WorkTime elapsed() const {
    const auto total = static_cast<std::uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(Clock::now() - begin_).count());
    return {.total_ns = total, .busy_ns = may_wait_ ? busy_ns() - busy_ : total};
  }

 private:
  using Clock = std::chrono::steady_clock;

  static std::uint64_t busy_ns() {
    constexpr std::uint64_t kSecond = 1000000000;
    struct timespec now{};
    ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return static_cast<std::uint64_t>(now.tv_sec) * kSecond +
           static_cast<std::uint64_t>(now.tv_nsec);
  }

  bool may_wait_;
  Clock::time_point begin_;
  std::uint64_t busy_;
};

}  // namespace sweephand
