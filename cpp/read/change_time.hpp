// The time of a file's last change, which reveals every later change.
//
// Size and time of modification do not show that a file was cut and written again: `utime` puts
// the time back. The system's own time of the last change (st_ctime) cannot be set, and every
// change of bytes or size moves it to the clock of the system. But that clock does not advance
// within a tick, and some file systems round it: two changes within a tick show once. So a time
// counts only when it is settled:
//
//   clock N, then a look that finds the time c, N a granule or more beyond c
//     -> a change after the look is given a time of N or later, rounded down: not c
//
// An unsettled time is waited for, until a tick after the last change, for any number of files.
// Where a server's clock decides, and is ahead of ours, the same is known from two looks that
// find the same c and are a granule and a tick of that clock apart: the first came no earlier
// than c, so that the clock is beyond c at the second.
//
// So where a reader has c from a settled look that found the listed size and time of
// modification, reads, looks again and finds all three, nothing was cut, written or put back
// between the looks: a write and a truncation move c, and so does `utime`, without which the
// time of modification would not be the listed one.
//
// c also moves without a change of bytes: by chmod, chown, rename, a new or a lost link. The
// data are then read again, under the new c.
//
// Not revealed: writes of another process that has mapped the file, which the system dates at
// some later time; changes by another machine, on a file system that answers from memory
// without asking its server; changes on a server whose clock is slow.
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>

namespace sweephand {

class ChangeTime {
 public:
  using Clock = std::chrono::steady_clock;

  // To be called before each look at the file.
  void before_look();

  // The time that the look found, in ns. Returns whether it is settled.
  bool settles(std::int64_t found_ns);

  // How long there have been looks.
  Clock::duration elapsed() const { return look_ - begin_; }

 private:
  std::int64_t clock_ns_ = 0;  // of the system, before the look
  std::int64_t found_ns_ = std::numeric_limits<std::int64_t>::min();
  Clock::time_point look_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point first_look_;  // that found it
};

}  // namespace sweephand
