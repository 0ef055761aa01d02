// Plans and assembles minibatches ahead of the caller.
#pragma once

#include "compose/planner.hpp"
#include "engine/assemble.hpp"
#include "engine/look_ahead.hpp"
#include "engine/pace.hpp"
#include "run/thread_group.hpp"
#include "run/turns.hpp"
#include "run/waiting.hpp"
#include "run/work_time.hpp"

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

namespace sweephand {

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
