#include "run/thread_group.hpp"

#include <algorithm>
#include <system_error>
#include <utility>

namespace sweephand {

ThreadGroup::~ThreadGroup() {
  for (std::thread& thread : threads_) thread.join();
}

bool ThreadGroup::start(std::function<void()> work) {
  const std::scoped_lock lock(mutex_);
  try {
    threads_.emplace_back([this, work = std::move(work)] {
      work();
      const std::scoped_lock ending(mutex_);
      --running_;
      ended_.notify_all();
    });
  } catch (const std::system_error&) {
    return false;
  }
  ++running_;
  return true;
}

std::size_t ThreadGroup::size() const {
  const std::scoped_lock lock(mutex_);
  return threads_.size();
}

bool ThreadGroup::holds_caller() const {
  const std::scoped_lock lock(mutex_);
  return holds_caller_unlocked();
}

bool ThreadGroup::holds_caller_unlocked() const {
  return std::ranges::any_of(threads_, [](const std::thread& thread) {
    return thread.get_id() == std::this_thread::get_id();
  });
}

bool ThreadGroup::end(std::chrono::duration<double> limit) {
  std::vector<std::thread> ended;
  std::unique_lock lock(mutex_);
  const std::size_t own = holds_caller_unlocked() ? 1 : 0;
  if (!ended_.wait_for(lock, limit, [&] { return running_ == own; })) return false;
  if (own == 0) ended.swap(threads_);
  lock.unlock();  // before they are joined
  for (std::thread& thread : ended) thread.join();
  return true;
}

}  // namespace sweephand
