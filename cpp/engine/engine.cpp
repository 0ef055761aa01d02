#include "engine/engine.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>
#include <unistd.h>
#include <utility>

namespace sweephand {
namespace {

constexpr auto kPollInterval = std::chrono::milliseconds(100);

// Sets a flag for a while, and wakes those who wait for its end. REQUIRES: the lock is held at
// both ends
class Turn {
 public:
  Turn(bool& flag, std::condition_variable& changed) : flag_(flag), changed_(changed) {
    flag_ = true;
  }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn() {
    flag_ = false;
    changed_.notify_all();
  }

 private:
  bool& flag_;
  std::condition_variable& changed_;
};

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

}  // namespace

Engine::Engine(std::unique_ptr<Planner> planner, std::shared_ptr<Assembler> assembler,
               const EngineOptions& options)
    : planner_(std::move(planner)),
      assembler_(std::move(assembler)),
      options_(options),
      process_(::getpid()),
      time_(planner_->time()) {}

Engine::~Engine() { close(); }

bool Engine::forked() const noexcept { return process_ != ::getpid(); }

void Engine::close() {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    slots_.clear();
    changed_.notify_all();
  }
  threads_.clear();  // joins them
  assembler_->close();
}

void Engine::check_open() const {
  if (closed_) throw std::runtime_error("the source is closed");
}

void Engine::wait(Lock& lock, const Poll& poll, const std::function<bool()>& ready) {
  while (!ready()) {
    if (changed_.wait_for(lock, kPollInterval) == std::cv_status::timeout) {
      const Unlocked unlocked(lock);
      poll();
    }
    check_open();
  }
}

// Makes the planner stand at time_ and hold nothing of another request.
void Engine::start_over(Lock& lock, const Request& request, const Poll& poll) {
  paused_ = true;  // no thread begins another plan
  wait(lock, poll, [&] { return !planning_; });
  const bool moved = stale_ || !slots_.empty();
  slots_.clear();
  stale_ = true;
  if (moved) {
    const Turn turn(planning_, changed_);
    const Unlocked unlocked(lock);
    planner_->seek(time_);
  }
  stale_ = false;
  request_ = request;
  paused_ = false;
  changed_.notify_all();
}

// Plans one minibatch into `slot`, which takes its place in the row. Nothing to assemble: the
// data have ended, or planning failed.
std::optional<Plan> Engine::plan_next(Lock& lock, const std::shared_ptr<Slot>& slot) {
  std::optional<Plan> plan;
  slots_.push_back(slot);
  const Request request = request_;
  const Turn turn(planning_, changed_);
  try {
    const Unlocked unlocked(lock);
    plan = planner_->next(request);
  } catch (...) {
    slot->error = std::current_exception();
  }
  if (plan && !plan->end_of_data) {
    slot->next_time = plan->next_time;
    return plan;
  }
  paused_ = true;
  slot->done = true;
  slot->next_time = time_;
  if (plan) {
    slot->next_time = plan->next_time;
    auto batch = std::make_shared<Batch>();
    batch->plan = *std::move(plan);
    slot->batch = std::move(batch);
  }
  return std::nullopt;
}

void Engine::work() {
  Lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] {
      return closed_ || (!paused_ && !planning_ &&
                         slots_.size() < std::max<std::size_t>(1, options_.prefetch));
    });
    if (closed_) return;
    const auto slot = std::make_shared<Slot>();
    std::optional<Plan> plan = plan_next(lock, slot);
    if (!plan) continue;
    std::shared_ptr<const Batch> batch;
    std::exception_ptr error;
    {
      const Unlocked unlocked(lock);
      try {
        batch = assembler_->assemble(*std::move(plan));
      } catch (...) {
        error = std::current_exception();
      }
    }
    slot->batch = std::move(batch);
    slot->error = std::move(error);
    slot->done = true;
    changed_.notify_all();
  }
}

std::shared_ptr<Engine::Slot> Engine::make_inline(Lock& lock) {
  auto slot = std::make_shared<Slot>();
  std::optional<Plan> plan = plan_next(lock, slot);
  if (!plan) return slot;
  const Unlocked unlocked(lock);
  try {
    slot->batch = assembler_->assemble(*std::move(plan));
  } catch (...) {
    slot->error = std::current_exception();
  }
  return slot;
}

std::shared_ptr<Engine::Slot> Engine::wait_for_front(Lock& lock, const Poll& poll) {
  while (threads_.size() < options_.num_threads) threads_.emplace_back([this] { work(); });
  const auto ready = [&] { return !slots_.empty() && slots_.front()->done; };
  if (!ready()) {
    const auto begin = std::chrono::steady_clock::now();
    wait(lock, poll, ready);
    stats_.waited_ns += static_cast<std::uint64_t>(
        std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count());
  }
  return slots_.front();
}

std::shared_ptr<const Batch> Engine::next(const Request& request, const Poll& poll) {
  Lock lock(mutex_);
  check_open();
  wait(lock, poll, [&] { return !serving_; });
  const Turn turn(serving_, changed_);
  if (paused_ || request != request_) start_over(lock, request, poll);
  const std::shared_ptr<Slot> slot =
      options_.num_threads == 0 ? make_inline(lock) : wait_for_front(lock, poll);
  if (slot->error) {
    paused_ = true;
    std::rethrow_exception(slot->error);
  }
  slots_.pop_front();
  time_ = slot->next_time;
  if (!slot->batch->plan.end_of_data) ++stats_.minibatches;
  stats_.samples += slot->batch->share_samples;
  return slot->batch;
}

void Engine::seek(std::uint64_t time, const Poll& poll) {
  Lock lock(mutex_);
  check_open();
  wait(lock, poll, [&] { return !serving_; });
  const Turn turn(serving_, changed_);
  paused_ = true;
  wait(lock, poll, [&] { return !planning_; });
  slots_.clear();
  stale_ = true;
  {
    const Turn planning(planning_, changed_);
    const Unlocked unlocked(lock);
    planner_->seek(time);
  }
  stale_ = false;
  time_ = planner_->time();
}

EngineStats Engine::stats() const {
  EngineStats stats;
  {
    const std::scoped_lock lock(mutex_);
    stats = stats_;
  }
  stats.assembled = assembler_->stats();
  return stats;
}

}  // namespace sweephand
