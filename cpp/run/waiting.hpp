// Waits that can be interrupted.
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>

namespace sweephand {

// Called at intervals while a caller waits, without any lock; its exception ends the wait.
using Poll = std::function<void()>;

// Gives a lock away for a while, and takes it back whatever happens.
class Unlocked {
 public:
  explicit Unlocked(std::unique_lock<std::mutex>& lock) : lock_(lock) { lock_.unlock(); }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { lock_.lock(); }

 private:
  std::unique_lock<std::mutex>& lock_;
};

// Waits until `ready` is true; it is looked at with the lock.
template <class Ready>
void wait_until(std::condition_variable& changed, std::unique_lock<std::mutex>& lock,
                const Poll& poll, Ready ready) {
  using Clock = std::chrono::steady_clock;
  constexpr auto kInterval = std::chrono::milliseconds(100);
  auto next_poll = Clock::now() + kInterval;
  while (!ready()) {
    if (changed.wait_until(lock, next_poll) == std::cv_status::timeout) {
      const Unlocked unlocked(lock);
      poll();
      next_poll = Clock::now() + kInterval;
    }
  }
}

}  // namespace sweephand
