// Which loops are served better without threads.
#pragma once

#include "run/work_time.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace sweephand {

// Watches how soon the caller of an engine comes back, beside what a minibatch costs. Handing a
// minibatch from thread to thread costs several microseconds and cold caches, a tenth to a
// third of a small one: a loop that does next to nothing is served cheaper by its own thread,
// one that computes by minibatches made ahead.
class Pace {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // `num_threads` may make minibatches ahead.
  explicit Pace(std::uint32_t num_threads) : num_threads_(num_threads) {}

  // The caller came back `away` after it was given a minibatch, which was `made` so.
  void came_back(Duration away, const WorkTime& made) noexcept {
    score_ = std::clamp(comes_early(away, made) ? score_ + 1 : score_ - kLoose, 0, kTight);
    if (score_ == kTight) tight_ = true;
    if (score_ == 0) tight_ = false;
  }

  // The caller should make its minibatches itself.
  bool is_tight() const noexcept { return tight_; }

 private:
  bool comes_early(Duration away, const WorkTime& made) const noexcept {
    // Who waits for a disk or a network is helped by whoever waits beside.
    if (made.waited_ns > made.total_ns / 4) return false;
    const std::chrono::nanoseconds cost(made.total_ns);
    if (cost < kCheap) return away < std::max<Duration>(cost, kLoop);
    // The loop would be a quarter longer at most, and several threads are as many times faster.
    return num_threads_ <= 1 && 4 * away < cost;
  }

  static constexpr auto kLoop = std::chrono::microseconds(30);  // around a minibatch, in Python
  static constexpr auto kCheap = std::chrono::microseconds(250);
  static constexpr int kTight = 8;  // times in a row that say so
  static constexpr int kLoose = 4;  // of them that another time takes back

  std::uint32_t num_threads_;
  int score_ = 0;
  bool tight_ = false;
};

}  // namespace sweephand
