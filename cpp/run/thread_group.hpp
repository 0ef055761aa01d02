// Threads that belong to one owner.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace sweephand {

// Tells a forked child from its parent, without a call of the system.
// The number of forks between this process and the first caller. A value stored before a fork
// differs from it in the child.
std::uint64_t fork_count() noexcept;

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

// Waits that can be interrupted.
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

// The order in which minibatches load what one lock guards: the one that is delivered first.
// Shared by the turns of one engine, which it outlives.
class Turns {
 private:
  friend class Turn;

  std::mutex mutex_;  // guards all below
  std::condition_variable changed_;
  std::uint64_t num_taken_ = 0;
  std::set<std::uint64_t> present_;  // turns that may load
};

// How one minibatch waits while it is made. Safe for several threads.
class Turn {
 public:
  // Waits for no other.
  explicit Turn(Poll poll) : poll_(std::move(poll)) {}

  // Comes after all turns that were taken before.
  Turn(Poll poll, Turns& turns);
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() { pass(); }

  // Ends other waits of the minibatch.
  const Poll& poll() const noexcept { return poll_; }

  // Waits until no earlier turn may load: from here on until pass(), no later one does. Throws
  // what poll does, and std::runtime_error once nobody wants the minibatch.
  void wait() const;

  // Lets later turns load. One that waits again takes up its place.
  void pass() const;

  // Says that nobody wants the minibatch.
  void drop();

 private:
  Poll poll_;
  Turns* turns_ = nullptr;  // null: there are no others
  std::uint64_t number_ = 0;
  bool dropped_ = false;  // guarded by the mutex of the turns
};

}  // namespace sweephand
