// Which loops are served better without threads.
#pragma once

#include "run/work_time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sweephand {

// Compares how long minibatches take by threads ahead and by the caller alone: some of each,
// and again after a while, which doubles.
class Trial {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // The caller should make the next minibatch; the last one took `round`. Of those that follow
  // a change as many are not counted as may have been made before it.
  bool is_better_alone(Duration round, std::uint32_t made_before) noexcept {
    ++done_;
    if (!is_trying_) {
      if (done_ < pause_) return alone_is_better_;
      pause_ = std::clamp(2 * pause_, kShortestPause, kLongestPause);
      is_trying_ = true;
      try_next(false);
      return false;
    }
    if (done_ > made_before + 1) {
      passed_ += round;
      longest_ = std::max(longest_, round);
    }
    const bool all_counted = done_ >= made_before + 1 + (alone_ ? kCounted : kCountedAhead);
    // Who makes them alone burns less, so that a little longer is better. Another program may
    // have had the processor in the longest one.
    const Duration without = passed_ - longest_;
    const Duration alone_took = all_counted ? without * kCounted / (kCounted - 1) : without;
    const bool has_lost = alone_ && 20 * alone_took >= 21 * ahead_;
    if (!all_counted && !has_lost) return alone_;
    if (!alone_) {
      ahead_ = passed_ * kCounted / kCountedAhead;
      try_next(true);
      return true;
    }
    alone_is_better_ = !has_lost;
    const bool is_clear = !all_counted || 20 * ahead_ > 23 * alone_took;
    if (is_clear) pause_ = std::min(8 * pause_, kLongestPause);
    is_trying_ = false;
    done_ = 0;
    return alone_is_better_;
  }

 private:
  void try_next(bool alone) noexcept {
    alone_ = alone;
    done_ = 0;
    passed_ = longest_ = Duration::zero();
  }

  static constexpr std::uint32_t kCounted = 8;
  // Those come in bursts, and the first of them may have been made before.
  static constexpr std::uint32_t kCountedAhead = 24;
  static constexpr std::uint32_t kShortestPause = 64;
  static constexpr std::uint32_t kLongestPause = 4096;

  bool is_trying_ = false;
  bool alone_ = false;                   // what is tried now
  bool alone_is_better_ = false;         // as the last trial found
  std::uint32_t done_ = 0;               // of a try, or since the last trial
  std::uint32_t pause_ = 1;              // until the next trial
  Duration passed_ = Duration::zero();   // in minibatches that are counted
  Duration longest_ = Duration::zero();  // of them
  Duration ahead_ = Duration::zero();    // as many by threads
};

// Compares the time until the caller of an engine returns with the cost of a minibatch. Handing
// a minibatch from thread to thread costs several microseconds and cold caches, a tenth to a
// third of a small minibatch: a loop that does almost nothing is served cheaper by its own
// thread, and a loop that computes by minibatches made ahead.
//
// Work that may take turns, such as Python functions that hold its lock, is tried both ways, as
// only a trial shows whether threads help or hinder each other.
class Pace {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // `num_threads` may make minibatches ahead, `prefetch` at most.
  Pace(std::uint32_t num_threads, std::uint32_t prefetch, bool may_take_turns)
      : num_threads_(num_threads), prefetch_(prefetch), may_take_turns_(may_take_turns) {}

  // The caller came back `away` after it was given a minibatch, which was `made` so, and which
  // it had `round` after the one before.
  void came_back(Duration away, Duration round, const WorkTime& made) noexcept {
    score_ = std::clamp(comes_early(away, made) ? score_ + 1 : score_ - kLoose, 0, kTight);
    if (score_ == kTight) tight_ = !may_take_turns_ || trial_.is_better_alone(round, prefetch_);
    if (score_ == 0) tight_ = false;
  }

  // The caller should make its minibatches itself.
  bool is_tight() const noexcept { return tight_; }

 private:
  bool comes_early(Duration away, const WorkTime& made) const noexcept {
    const std::chrono::nanoseconds cost(made.total_ns);
    // Who waits for a disk or a network is helped by whoever waits beside.
    if (made.waited_ns > made.total_ns / 4 && !may_take_turns_) return false;
    if (cost < kCheap) return away < std::max<Duration>(cost, kLoop);
    // Only a trial shows it, and callers wait for a lock that makers hold.
    if (may_take_turns_) return away < cost;
    // The loop would be a quarter longer at most, and several threads are as many times faster.
    return num_threads_ <= 1 && 4 * away < cost;
  }

  static constexpr auto kLoop = std::chrono::microseconds(30);  // around a minibatch, in Python
  static constexpr auto kCheap = std::chrono::microseconds(250);
  static constexpr int kTight = 8;  // times in a row that say so
  static constexpr int kLoose = 4;  // of them that another time takes back

  std::uint32_t num_threads_;
  std::uint32_t prefetch_;
  bool may_take_turns_;
  Trial trial_;
  int score_ = 0;
  bool tight_ = false;
};

}  // namespace sweephand
