#include "read/change_time.hpp"

#include <chrono>
#include <cstdint>
#include <ctime>

namespace sweephand {
namespace {

using std::chrono::nanoseconds;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr nanoseconds kSlowestTick = std::chrono::milliseconds(20);

// The clock from which the system takes the times of files, or a clock that is late by no more
// than its tick.
std::int64_t now_ns() {
#ifdef CLOCK_REALTIME_COARSE
  constexpr clockid_t kClock = CLOCK_REALTIME_COARSE;
#else
  constexpr clockid_t kClock = CLOCK_REALTIME;
#endif
  struct timespec now{};
  ::clock_gettime(kClock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The granule to which the file system may have rounded the time: the largest power of ten that
// divides it, and 2 s where that is a second.
std::int64_t granule_of(std::int64_t time_ns) {
  std::int64_t granule = 1;
  while (granule < kSecond && time_ns % (granule * 10) == 0) granule *= 10;
  return granule < kSecond ? granule : 2 * kSecond;
}

}  // namespace

void ChangeTime::before_look() {
  clock_ns_ = now_ns();
  look_ = Clock::now();
}

bool ChangeTime::settles(std::int64_t found_ns) {
  if (found_ns != found_ns_) {
    found_ns_ = found_ns;
    first_look_ = Clock::now();  // it was over by now
  }
  const std::int64_t granule = granule_of(found_ns);
  return clock_ns_ - granule >= found_ns ||
         look_ - first_look_ >= nanoseconds(granule) + kSlowestTick;
}

}  // namespace sweephand
