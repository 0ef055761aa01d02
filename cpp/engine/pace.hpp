// Which loops are served better without threads.
#pragma once

#include <algorithm>
#include <chrono>

namespace sweephand {

// Watches how soon the caller of an engine comes back, beside what a minibatch costs. Handing a
// minibatch from thread to thread costs several microseconds and cold caches: a loop that does
// next to nothing with small minibatches is served faster by its own thread, one that computes
// by minibatches made ahead.
class Pace {
 public:
  using Duration = std::chrono::steady_clock::duration;

  // The caller came back `away` after it was given a minibatch, and the last one took `cost`.
  void came_back(Duration away, Duration cost) noexcept {
    const bool is_tight = cost < kCostly && (away < cost || away < kLoop);
    score_ = std::clamp(is_tight ? score_ + 1 : score_ - kLoose, 0, kTight);
    if (score_ == kTight) tight_ = true;
    if (score_ == 0) tight_ = false;
  }

  // The caller should make its minibatches itself.
  bool is_tight() const noexcept { return tight_; }

 private:
  static constexpr auto kLoop = std::chrono::microseconds(30);  // around a minibatch, in Python
  static constexpr auto kCostly =
      std::chrono::microseconds(250);  // a hand-over is cheap beside
  static constexpr int kTight = 8;     // times in a row that say so
  static constexpr int kLoose = 4;     // of them that another time takes back

  int score_ = 0;
  bool tight_ = false;
};

}  // namespace sweephand
