// The order in which minibatches load what one lock guards: the one that is delivered first.
#pragma once

#include "run/waiting.hpp"

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

namespace sweephand {

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
