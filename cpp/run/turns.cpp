#include "run/turns.hpp"

#include <stdexcept>

namespace sweephand {

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
