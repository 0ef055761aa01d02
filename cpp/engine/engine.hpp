// Plans and assembles minibatches ahead of the caller.
#pragma once

#include "compose/plan.hpp"
#include "compose/planner.hpp"
#include "engine/assemble.hpp"
#include "order/timeline.hpp"
#include "run/thread_group.hpp"
#include "run/work_time.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

namespace sweephand {

// Which chunks will be wanted soon: those of the blocks that lanes are about to enter.
//
//   lane 0 | ... block 17 ......|. block 4 ...      nominal time: now -> | horizon |
//   lane 1 | .. block 2 ...|... block 30 .....      all lanes are read at one rate, so that a
//   lane 2 | .... block 9 .........| block 21       time is a place in each of them
class LookAhead {
 public:
  // `limit` is where the timeline ends. `by_lanes`: a worker reads its share of the lanes,
  // instead of all. `with_open`: also returns chunks of open blocks, as the first
  // read from a store is waited for, and those that are due first in front.
  LookAhead(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit, bool by_lanes,
            bool with_open);

  // A quarter of the samples that a sweep has open at a time, in nominal time.
  std::uint64_t horizon() const noexcept { return parts_[0].horizon(); }

  // True if open blocks count.
  bool with_open() const noexcept { return parts_[0].with_open(); }

  // The chunks of blocks that will be open within the horizon and are not at `time`, as they
  // are due, about: the places of lanes are not searched for. Nothing if that was returned for
  // a time that is near enough. Not for several threads at once.
  std::optional<std::vector<std::uint64_t>> chunks_at(std::uint64_t time,
                                                      const Request& request);

 private:
  // That of one corpus.
  class Part {
   public:
    Part(TimelinePart part, bool by_lanes, bool with_open);
    std::uint64_t horizon() const noexcept { return horizon_; }
    bool with_open() const noexcept { return with_open_; }
    bool look(std::uint64_t nominal_time, const Request& request);
    const std::vector<std::uint64_t>& chunks() const noexcept { return chunks_; }

   private:
    bool reads(std::uint32_t lane, const Request& request) const;
    bool add_first(std::uint64_t time, std::uint64_t then, const Request& request);
    void add(const Sweep& sweep, std::uint64_t block);
    std::shared_ptr<Sweep> sweep(std::uint64_t number);

    TimelinePart part_;
    bool by_lanes_;
    bool with_open_;
    std::uint64_t horizon_ = 0;  // 0: all is open all the time
    std::uint64_t next_time_ = 0;
    std::uint64_t last_time_ = 0;
    std::shared_ptr<Sweep> now_;  // those that were looked at last
    std::shared_ptr<Sweep> next_;
    std::vector<std::uint64_t> chunks_;  // that were found last, numbered in the whole timeline
  };

  std::vector<Part> parts_;
};

// Which loops are served better without threads.
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
    // Several threads that wait for a disk or a network at a time wait less.
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

// Plans and assembles minibatches ahead of the caller.
struct EngineOptions {
  std::uint32_t num_threads = 1;  // 0: everything is done in the caller's thread
  std::uint32_t prefetch =
      2;                // minibatches that are ready or being made before they are asked for
  bool adapts = false;  // threads rest while a loop is served better without (see Pace)
  bool may_take_turns = false;  // while they make minibatches: a lock may be held
};

struct EngineStats {
  AssembleStats assembled;
  std::uint64_t minibatches = 0;
  std::uint64_t samples = 0;     // delivered to this worker
  std::uint64_t cells = 0;       // that they fill, or that pad them
  std::uint64_t waited_ns = 0;   // by callers, for minibatches that were not ready
  std::uint64_t made_ahead = 0;  // minibatches that threads began
  bool serves_ahead = false;     // threads begin more of them; else the caller's own does
};

// Minibatches come out in order, independent of the threads. A caller makes the one it waits
// for itself if no thread has begun it. Thread-safe. Threads start with the first call of next,
// so that a process that was forked before has its own; one that was forked later must make a
// new engine (see forked).
class Engine {
 public:
  // `look_ahead`: which chunks are loaded before a minibatch wants them, if any.
  Engine(std::unique_ptr<Planner> planner, std::shared_ptr<Assembler> assembler,
         const EngineOptions& options, std::optional<LookAhead> look_ahead = std::nullopt);
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;
  ~Engine();

  // The next minibatch. When it throws, the place stays, and the next call tries again. Throws
  // std::runtime_error, as seek and resume do, when code that it calls calls it again.
  std::shared_ptr<const Batch> next(const Request& request, const Poll& poll);

  // The same if it is ready without waiting; else null, and nothing is done.
  std::shared_ptr<const Batch> next_if_ready(const Request& request);

  // Where the next minibatch begins. A forked child may call it too. A caller of the position
  // must not hold a lock that a deserializer's errors need for their destruction, such as
  // Python's: a thread that drops an error may have to wait for it.
  std::uint64_t time() const noexcept { return time_; }
  Position position() const;

  // Goes to the first place at or after `time`, or to an earlier result of position(). When it
  // throws, as the planner's do, the place stays.
  void seek(std::uint64_t time, const Poll& poll);
  void resume(const Position& position, const Poll& poll);

  // Drops minibatches that were made ahead, and waits up to `limit` for the threads to end;
  // next and seek then throw. Returns whether the threads have ended, which they do after their
  // present work. Code that the engine calls does not wait for threads that may wait for it.
  // May be called again.
  bool close(std::chrono::duration<double> limit);

  // The caller is one of the threads, or called by the engine, which must outlive it.
  bool runs_here() const;

  // This process is a child of the one that made the engine: the threads are not here, and
  // locks may be held forever.
  bool forked() const noexcept;

  EngineStats stats() const;

 private:
  using Clock = std::chrono::steady_clock;

  // A minibatch on its way.
  struct Slot {
    bool done = false;
    std::shared_ptr<const Batch> batch;
    std::exception_ptr error;
    Position next;
    WorkTime made;
    std::unique_ptr<Turn> turn;
  };
  using Lock = std::unique_lock<std::mutex>;

  void work();
  bool serves_caller(const Lock& lock) const;
  bool is_called_by_itself(const Lock& lock) const;
  void take(Lock& lock, const Poll& poll);
  template <class Ready>
  void nap(Lock& lock, Ready ready);
  void wake_for_room();
  bool may_begin() const;
  bool may_begin_ahead() const { return may_begin() && !pace_.is_tight(); }
  bool front_done() const;
  void see_caller(Clock::time_point asked);
  std::shared_ptr<const Batch> give_front();
  void keep_caches_warm();
  void clear_slots();
  void drop_slots();
  void make(Lock& lock, const Poll& poll);
  void load_ahead(std::uint64_t time, const Request& request);
  std::optional<Plan> plan(Lock& lock, Slot& slot);
  void start(Lock& lock, const Request& request, const Poll& poll);
  void move_planner(Lock& lock, const Position& position, const Poll& poll);
  void set_position(Position position);
  template <class Ready>
  void look_again(Lock& lock, Ready ready);
  template <class Ready>
  void wait(Lock& lock, const Poll& poll, Ready ready);
  void check_open() const;

  std::unique_ptr<Planner> planner_;
  Position planner_stands_;  // of whoever has the planner
  std::shared_ptr<Assembler> assembler_;
  EngineOptions options_;
  std::optional<LookAhead> look_ahead_;  // of whoever has the planner
  std::uint64_t forks_;

  mutable std::mutex mutex_;  // guards all below; the planner too, while `planning_` is false
  std::condition_variable progress_;  // something that a caller may wait for has changed
  std::condition_variable room_;      // a thread may begin another minibatch
  bool closed_ = false;
  bool serving_ = false;    // a caller is inside next or seek: others queue up
  std::thread::id server_;  // that caller, or the last one
  bool planning_ = false;   // a thread has the planner
  bool stale_ = false;      // the planner does not stand behind the last slot
  bool resting_ =
      true;  // nobody begins another: none asked for yet, the data ended, or an error
  Request request_;
  std::atomic<std::uint64_t> time_ = 0;  // of the next minibatch that is delivered
  // The entry that is not current is written, then made current: so a fork copies a whole
  // entry.
  std::array<Position, 2> positions_;
  std::atomic<std::uint32_t> current_ = 0;
  Turns turns_;  // of the minibatches in `slots_`
  std::deque<std::shared_ptr<Slot>> slots_;
  Pace pace_;
  bool lean_ = false;        // nothing is held of what threads made ahead
  Clock::time_point given_;  // when the last caller was given a minibatch
  Clock::duration round_ = Clock::duration::zero();  // since it was given the one before
  WorkTime made_;                                    // that minibatch
  bool napping_ = false;  // a thread looks for room by itself, now and then: after so long
  Clock::duration nap_ = Clock::duration::zero();
  EngineStats stats_;
  std::exception_ptr interruption_;  // met by any thread, and thrown by the next call
  ThreadGroup threads_;
};

}  // namespace sweephand
