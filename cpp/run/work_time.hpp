// The time of a thread's work, and the part of it that it waits: for a disk, a network or a
// lock. To wait for a processor is not to wait here: where all are busy, nothing else is slow.
#pragma once

#include <cstdint>

namespace sweephand {

struct WorkTime {
  std::uint64_t total_ns = 0;
  std::uint64_t waited_ns = 0;

  WorkTime& operator+=(const WorkTime& other) noexcept {
    total_ns += other.total_ns;
    waited_ns += other.waited_ns;
    return *this;
  }
};

// The measured quantities: the fewer, the less it costs.
enum class Watch : std::uint8_t {
  kTotal,  // the work waits for nothing: 50 ns
  kWaits,  // no wait is counted if the thread never gave up its processor: 1 us
  kQueue,  // also what it waited for a processor, where the system tells: 10 us
};

// Measures the calling thread from its construction on.
class WorkClock {
 public:
  explicit WorkClock(Watch watch = Watch::kQueue) : watch_(watch), begin_(now(watch)) {}

  WorkTime elapsed() const;

 private:
  struct Moment {
    std::uint64_t total_ns = 0;
    std::uint64_t busy_ns = 0;    // on a processor
    std::uint64_t queued_ns = 0;  // ready, but without one
    std::int64_t num_waits = 0;   // times that it gave up its processor
  };

  static Moment now(Watch watch);

  Watch watch_;
  Moment begin_;
};

}  // namespace sweephand
