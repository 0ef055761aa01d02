#include "run/thread_group.hpp"

#include <algorithm>
#include <atomic>
#include <pthread.h>
#include <stdexcept>
#include <system_error>

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

Turn::Turn(Poll poll, Turns& turns) : poll_(std::move(poll)), turns_(&turns) {
  const std::scoped_lock lock(turns.mutex_);
  number_ = turns.num_taken_++;
  turns.present_.insert(number_);
}

void Turn::wait() const {
  if (turns_ == nullptr) return;
  std::unique_lock lock(turns_->mutex_);
  if (!dropped_) turns_->present_.insert(number_);
  wait_until(turns_->changed_, lock, poll_,
             [&] { return dropped_ || *turns_->present_.begin() == number_; });
  if (dropped_) throw std::runtime_error("nobody wants this minibatch any more");
}

void Turn::pass() const {
  if (turns_ == nullptr) return;
  const std::scoped_lock lock(turns_->mutex_);
  if (turns_->present_.erase(number_) > 0) turns_->changed_.notify_all();
}

void Turn::drop() {
  if (turns_ == nullptr) return;
  const std::scoped_lock lock(turns_->mutex_);
  dropped_ = true;
  turns_->present_.erase(number_);
  turns_->changed_.notify_all();
}

}  // namespace sweephand
