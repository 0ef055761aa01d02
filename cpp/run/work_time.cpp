#include "run/work_time.hpp"

#include <array>
#include <charconv>
#include <chrono>
#include <fcntl.h>
#include <string_view>
#include <sys/resource.h>
#include <unistd.h>

namespace sweephand {
namespace {

constexpr std::uint64_t kMicrosecond = 1000;
constexpr std::uint64_t kSecond = 1000000000;

std::uint64_t to_ns(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * kSecond +
         static_cast<std::uint64_t>(time.tv_usec) * kMicrosecond;
}

// The second number of the file, by Linux; 0 where there is none.
std::uint64_t queued_ns() {
  const int file = ::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  std::array<char, 128> text{};
  const ssize_t size = ::read(file, text.data(), text.size());
  ::close(file);
  const std::string_view line(text.data(), size > 0 ? static_cast<std::size_t>(size) : 0);
  const std::size_t space = line.find(' ');
  std::uint64_t queued = 0;
  if (space != std::string_view::npos)
    std::from_chars(line.data() + space + 1, line.data() + line.size(), queued);
  return queued;
}

}  // namespace

WorkClock::Moment WorkClock::now(Watch watch) {
  Moment moment;
  if (watch != Watch::kTotal) {
    struct rusage used{};
#ifdef RUSAGE_THREAD
    ::getrusage(RUSAGE_THREAD, &used);
#endif
    moment.busy_ns = to_ns(used.ru_utime) + to_ns(used.ru_stime);
    moment.num_waits = used.ru_nvcsw;
    if (watch == Watch::kQueue) moment.queued_ns = queued_ns();
  }
  moment.total_ns =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(
                                     std::chrono::steady_clock::now().time_since_epoch())
                                     .count());
  return moment;
}

WorkTime WorkClock::elapsed() const {
  const Moment end = now(watch_);
  WorkTime time{.total_ns = end.total_ns - begin_.total_ns};
  const std::uint64_t worked =
      end.busy_ns - begin_.busy_ns + (end.queued_ns - begin_.queued_ns);
  if (end.num_waits > begin_.num_waits && worked < time.total_ns)
    time.waited_ns = time.total_ns - worked;
  return time;
}

}  // namespace sweephand
