// Threads that belong to one owner.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace sweephand {

// Thread-safe, also for threads of the group. The destructor waits for them without a limit,
// and must not run in one of them.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;
  ~ThreadGroup();

  // Starts one more, and returns whether the system had one.
  bool start(std::function<void()> work);
  std::size_t size() const;

  // The caller is one of the threads.
  bool holds_caller() const;

  // Waits so long for all threads but the caller to end, and returns whether they have. Asking
  // them to end is up to the owner.
  bool end(std::chrono::duration<double> limit);

 private:
  bool holds_caller_unlocked() const;

  mutable std::mutex mutex_;
  std::condition_variable ended_;
  std::size_t running_ = 0;
  std::vector<std::thread> threads_;  // not std::jthread, which some libraries still lack
};

}  // namespace sweephand
