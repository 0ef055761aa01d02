#include "engine/engine.hpp"

#include "base/error.hpp"
#include "base/mix.hpp"

#include <stdexcept>
#include <unordered_set>
#include <utility>

namespace sweephand {
namespace {

// Sequences of a lane, on average, whose chunks are found singly where reading begins: after
// them most chunks of its block are due.
constexpr std::uint64_t kFirst = 64;

// Going to sleep and being woken costs more than a small minibatch: a thread first looks again
// this many times, which takes a few us and lets other threads run.
constexpr int kLooks = 8;

// Waking a thread costs its waker up to 40 us: a message to a processor that sleeps, or its own
// core, which the woken thread takes until it has made the next minibatch. So a thread looks
// now and then by itself while a caller comes about as often as before, for this many naps.
constexpr int kNaps = 8;
constexpr auto kShortestNap = std::chrono::microseconds(250);
constexpr auto kLongestNap = std::chrono::milliseconds(100);

// Raises a flag for a while, and wakes the threads that wait for its end. REQUIRES: the lock is
// held at both ends
class Raised {
 public:
  Raised(bool& flag, std::condition_variable& changed) : flag_(flag), changed_(changed) {
    flag_ = true;
  }
  Raised(const Raised&) = delete;
  Raised& operator=(const Raised&) = delete;
  ~Raised() {
    flag_ = false;
    changed_.notify_all();
  }

 private:
  bool& flag_;
  std::condition_variable& changed_;
};

bool is_interruption(const std::exception_ptr& error) {
  try {
    if (error) std::rethrow_exception(error);
  } catch (const Interruption&) {
    return true;
  } catch (...) {
    return false;
  }
  return false;
}

}  // namespace

LookAhead::Part::Part(TimelinePart part, bool by_lanes, bool with_open)
    : part_(std::move(part)), by_lanes_(by_lanes), with_open_(with_open) {
  const SweepTimeline& timeline = *part_.timeline;
  const Corpus& corpus = timeline.corpus();
  const OrderSettings& settings = timeline.settings();
  if (num_blocks(corpus, settings) == 1) return;
  const auto open = static_cast<uint128>(block_chunks(corpus, settings)) *
                    (settings.randomize ? settings.num_lanes : 1);
  const uint128 window = open * timeline.num_samples() / corpus.chunks.num_chunks();
  horizon_ = static_cast<std::uint64_t>(std::min<uint128>(window, timeline.num_samples())) / 4;
}

std::shared_ptr<Sweep> LookAhead::Part::sweep(std::uint64_t number) {
  for (const auto& known : {now_, next_}) {
    if (known && known->number() == number) return known;
  }
  return std::make_shared<Sweep>(part_.timeline->sweep(number));
}

bool LookAhead::Part::reads(std::uint32_t lane, const Request& request) const {
  return !by_lanes_ || lane % request.num_workers == request.rank;
}

void LookAhead::Part::add(const Sweep& sweep, std::uint64_t block) {
  for (const std::uint64_t chunk : sweep.chunks_of(block))
    chunks_.push_back(part_.first_chunk + chunk);
}

// Adds the chunks of the first sequences of [time, then], in their order. Returns true if there
// are no later ones.
bool LookAhead::Part::add_first(std::uint64_t time, std::uint64_t then,
                                const Request& request) {
  const std::unique_ptr<Cursor> cursor = part_.timeline->cursor(time);
  std::unordered_set<std::uint64_t> known;
  std::uint64_t left = kFirst * now_->num_lanes();
  for (; left > 0 && !cursor->sweep_done() && cursor->time() <= then; --left) {
    const PlannedSequence sequence = cursor->ahead().front();
    const std::uint64_t chunk = part_.timeline->corpus().chunks.chunk_of(sequence.sequence);
    if (reads(sequence.lane, request) && known.insert(chunk).second)
      chunks_.push_back(part_.first_chunk + chunk);
    cursor->pop(1, sequence.size);
  }
  return cursor->time() >= part_.limit;
}

// Returns false for a time that is near the previous one.
bool LookAhead::Part::look(std::uint64_t nominal_time, const Request& request) {
  const std::uint64_t time = part_.rate.due(nominal_time);
  const bool is_near = last_time_ <= time && time < next_time_;
  if (horizon_ == 0 || is_near) return false;
  const bool begins = time < last_time_ || time - last_time_ > horizon_ || !now_;
  last_time_ = time;
  next_time_ = time + std::max<std::uint64_t>(1, horizon_ / 4);
  chunks_.clear();
  const std::uint64_t num_samples = part_.timeline->num_samples();
  if (time >= part_.limit) return true;
  const std::uint64_t then = std::min(time + horizon_, part_.limit - 1);
  now_ = sweep(time / num_samples);
  next_ = sweep(then / num_samples);
  if (with_open_ && begins && add_first(time, then, request)) return true;
  struct Entry {
    std::uint64_t due;  // samples of the lane before it
    Sweep* sweep;
    std::uint64_t block;
  };
  std::vector<Entry> entered;
  for (std::uint32_t lane = 0; lane < now_->num_lanes(); ++lane) {
    if (!reads(lane, request)) continue;
    const auto place_at = [&](Sweep& sweep, std::uint64_t at) {
      const std::uint64_t place = sweep.cut(lane) + at % num_samples / sweep.num_lanes();
      return std::min(place, sweep.cut(lane + 1) - 1);
    };
    if (now_->cut(lane) == now_->cut(lane + 1)) continue;
    const std::uint64_t place = place_at(*now_, time);
    const std::uint64_t open = now_->block_at(place);
    const std::uint64_t block = next_->block_at(place_at(*next_, then));
    if (with_open_) add(*now_, open);
    if (next_ == now_ && block == open) continue;
    const std::uint64_t end = std::min(now_->block_begin(open + 1), now_->cut(lane + 1));
    entered.push_back({.due = end - place, .sweep = next_.get(), .block = block});
  }
  std::ranges::stable_sort(entered, {}, &Entry::due);
  for (const Entry& entry : entered) add(*entry.sweep, entry.block);
  now_->let_go();
  next_->let_go();
  return true;
}

LookAhead::LookAhead(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
                     bool by_lanes, bool with_open) {
  for (TimelinePart& part : timeline->parts(limit))
    parts_.emplace_back(std::move(part), by_lanes, with_open);
}

std::optional<std::vector<std::uint64_t>> LookAhead::chunks_at(std::uint64_t time,
                                                               const Request& request) {
  bool any_new = false;
  for (Part& part : parts_)
    any_new = part.look(std::min(time, Rate::kMaxTime), request) || any_new;
  if (!any_new) return std::nullopt;
  std::vector<std::uint64_t> chunks;
  for (const Part& part : parts_)
    chunks.insert(chunks.end(), part.chunks().begin(), part.chunks().end());
  return chunks;
}

Engine::Engine(std::unique_ptr<Planner> planner, std::shared_ptr<Assembler> assembler,
               const EngineOptions& options, std::optional<LookAhead> look_ahead)
    : planner_(std::move(planner)),
      assembler_(std::move(assembler)),
      options_(options),
      look_ahead_(assembler_->members().loads_ahead() ? std::move(look_ahead) : std::nullopt),
      forks_(fork_count()),
      pace_(options.num_threads, options.prefetch, options.may_take_turns) {
  planner_stands_ = {.time = planner_->time()};
  set_position(planner_stands_);
}

Engine::~Engine() { close(std::chrono::seconds::zero()); }

bool Engine::forked() const noexcept { return forks_ != fork_count(); }

bool Engine::serves_caller(const Lock& /*lock*/) const {
  return serving_ && server_ == std::this_thread::get_id();
}

bool Engine::runs_here() const {
  if (threads_.holds_caller() || assembler_->members().runs_here()) return true;
  return serves_caller(Lock(mutex_));
}

bool Engine::is_called_by_itself(const Lock& lock) const {
  return serves_caller(lock) || threads_.holds_caller() || assembler_->members().runs_here();
}

// Acquires the engine for the caller, who releases it.
void Engine::take(Lock& lock, const Poll& poll) {
  check_open();
  if (is_called_by_itself(lock)) {
    throw std::runtime_error(
        "the source is asked by code that it calls itself, such as get_chunk: it would wait "
        "for itself");
  }
  wait(lock, poll, [&] { return !serving_; });
  server_ = std::this_thread::get_id();
}

bool Engine::close(std::chrono::duration<double> limit) {
  {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    clear_slots();
    progress_.notify_all();
    room_.notify_all();
  }
  if (runs_here()) return true;
  const auto end = std::chrono::steady_clock::now() + limit;
  return threads_.end(limit) &&
         assembler_->members().close(end - std::chrono::steady_clock::now());
}

void Engine::check_open() const {
  if (closed_) throw std::runtime_error("the source is closed");
}

template <class Ready>
void Engine::look_again(Lock& lock, Ready ready) {
  for (int i = 0; i < kLooks && !ready(); ++i) {
    const Unlocked unlocked(lock);
    std::this_thread::yield();
  }
}

template <class Ready>
void Engine::wait(Lock& lock, const Poll& poll, Ready ready) {
  look_again(lock, [&] { return closed_ || ready(); });
  wait_until(progress_, lock, poll, [&] {
    check_open();
    return ready();
  });
}

// Looks now and then for room, as long as a caller that counts on it may come.
template <class Ready>
void Engine::nap(Lock& lock, Ready ready) {
  if (napping_) return;  // one is enough
  napping_ = true;
  for (int i = 0; i < kNaps && nap_ >= kShortestNap && !ready(); ++i)
    room_.wait_for(lock, nap_);
  napping_ = false;
}

// Wakes a thread that may begin a minibatch, unless a thread looks by itself in time.
void Engine::wake_for_room() {
  const bool is_early = napping_ && !slots_.empty() && slots_.front()->done;
  if (!is_early && may_begin_ahead()) room_.notify_one();
}

bool Engine::may_begin() const {
  // The minibatch that a caller waits for is not ahead of it.
  const std::size_t room = options_.prefetch + (serving_ ? 1 : 0);
  return !closed_ && !resting_ && !planning_ && slots_.size() < room;
}

bool Engine::front_done() const {
  return interruption_ || (!slots_.empty() && slots_.front()->done);
}

// The caller's minibatches cycle through all memory that is held for reuse: once threads rest,
// it is reduced to that of minibatches made in turn.
void Engine::keep_caches_warm() {
  const bool is_tight = pace_.is_tight();
  if (is_tight && !lean_ && !slots_.empty()) return;
  if (is_tight && !lean_) assembler_->shrink();
  lean_ = is_tight;
}

// Has threads give up minibatches that nobody will ask for, where those wait to load.
void Engine::clear_slots() {
  // The latest first: so it is no other's turn meanwhile.
  std::for_each(slots_.rbegin(), slots_.rend(), [](const auto& slot) { slot->turn->drop(); });
  slots_.clear();
}

// Drops the minibatches made ahead: they are made again from time_ on.
void Engine::drop_slots() {
  resting_ = true;
  stale_ = true;
  clear_slots();
}

Position Engine::position() const {
  if (forked()) return positions_[current_];
  const std::scoped_lock lock(mutex_);
  return positions_[current_];
}

void Engine::set_position(Position position) {
  const std::uint32_t other = 1 - current_;
  time_ = position.time;
  positions_[other] = std::move(position);
  current_ = other;
}

// Moves the planner, and drops minibatches of another position or request.
void Engine::move_planner(Lock& lock, const Position& position, const Poll& poll) {
  resting_ = true;
  wait(lock, poll, [&] { return !planning_; });
  clear_slots();
  stale_ = true;
  {
    const Raised raised(planning_, progress_);
    const Unlocked unlocked(lock);
    planner_->resume(position);
    planner_stands_ = {.time = planner_->time(), .progress = position.progress};
  }
  stale_ = false;
}

// Begins to make minibatches of `request` from time_ on.
void Engine::start(Lock& lock, const Request& request, const Poll& poll) {
  if (stale_ || planning_ || !slots_.empty()) move_planner(lock, positions_[current_], poll);
  request_ = request;
  resting_ = false;
  const std::size_t wanted = std::min(options_.num_threads, options_.prefetch + 1);
  while (threads_.size() < wanted && threads_.start([this] { work(); })) {
  }
}

void Engine::load_ahead(std::uint64_t time, const Request& request) {
  if (const auto chunks = look_ahead_->chunks_at(time, request))
    assembler_->members().load_ahead(*chunks);
}

// Plans the minibatch of `slot`. Nothing to assemble: the data have ended, or planning failed.
std::optional<Plan> Engine::plan(Lock& lock, Slot& slot) {
  Request request = request_;
  request.tells_blocks = assembler_->members().keeps_chunks();
  std::optional<Plan> plan;
  const Raised raised(planning_, progress_);
  try {
    const Unlocked unlocked(lock);
    if (look_ahead_ && look_ahead_->with_open()) load_ahead(planner_stands_.time, request);
    plan = planner_->next(request);
    plan->request = request;
    plan->begin = std::exchange(planner_stands_, plan->next);
    slot.next = plan->next;
    if (look_ahead_) load_ahead(planner_->time(), request);
  } catch (...) {
    slot.error = std::current_exception();
    plan.reset();
  }
  if (plan && !plan->end_of_data) return plan;
  resting_ = true;
  if (plan) {
    plan->blocks.clear();
    auto batch = std::make_shared<Batch>();
    batch->Plan::operator=(*std::move(plan));
    slot.batch = std::move(batch);
  }
  return std::nullopt;
}

// Makes one minibatch, from its plan to its arrays. REQUIRES: may_begin()
void Engine::make(Lock& lock, const Poll& poll) {
  const auto slot = std::make_shared<Slot>();
  slot->turn = std::make_unique<Turn>(poll, turns_);
  slots_.push_back(slot);
  const WorkClock clock(options_.adapts && !assembler_->never_waits() ? Watch::kWaits
                                                                      : Watch::kTotal);
  std::optional<Plan> planned = plan(lock, *slot);
  if (may_begin_ahead()) room_.notify_one();
  if (planned) {
    std::shared_ptr<const Batch> batch;
    std::exception_ptr error;
    {
      const Unlocked unlocked(lock);
      try {
        batch = assembler_->assemble(*std::move(planned), *slot->turn);
      } catch (...) {
        error = std::current_exception();
      }
    }
    slot->batch = std::move(batch);
    slot->error = std::move(error);
  }
  slot->turn->pass();
  slot->made = clock.elapsed();
  slot->done = true;
  if (is_interruption(slot->error)) interruption_ = slot->error;
  progress_.notify_all();
}

void Engine::work() {
  Lock lock(mutex_);
  while (true) {
    const auto ready = [&] { return closed_ || may_begin_ahead(); };
    look_again(lock, ready);
    nap(lock, ready);
    room_.wait(lock, ready);
    if (closed_) return;
    ++stats_.made_ahead;
    make(lock, [] {});
  }
}

void Engine::see_caller(Clock::time_point asked) {
  if (given_ != Clock::time_point{}) {
    const Clock::duration away = asked - given_;
    if (options_.adapts) pace_.came_back(away, round_, made_);
    nap_ = std::min<Clock::duration>(away / 2, kLongestNap);
  }
  keep_caches_warm();
}

std::shared_ptr<const Batch> Engine::next_if_ready(const Request& request) {
  const Lock lock(mutex_, std::try_to_lock);
  if (!lock || closed_ || serving_ || interruption_ || request != request_) return nullptr;
  if (slots_.empty() || !slots_.front()->done || slots_.front()->error) return nullptr;
  if (is_called_by_itself(lock)) return nullptr;
  see_caller(Clock::now());
  return give_front();
}

std::shared_ptr<const Batch> Engine::next(const Request& request, const Poll& poll) {
  Lock lock(mutex_);
  take(lock, poll);
  const Raised raised(serving_, progress_);
  if (request != request_ || (resting_ && slots_.empty())) start(lock, request, poll);
  const auto asked = Clock::now();
  see_caller(asked);
  if (!front_done()) {
    // The awaited minibatch, if it has not been begun; a later one only if that takes no longer
    // than waiting.
    const bool helps = assembler_->never_waits();
    const auto may_make = [&] { return (slots_.empty() || helps) && may_begin(); };
    while (!front_done()) {
      if (may_make()) {
        make(lock, poll);
      } else {
        wait(lock, poll, [&] { return front_done() || may_make(); });
      }
    }
    stats_.waited_ns +=
        static_cast<std::uint64_t>(std::chrono::nanoseconds(Clock::now() - asked).count());
  }
  if (interruption_) {
    drop_slots();
    std::rethrow_exception(std::exchange(interruption_, nullptr));
  }
  return give_front();
}

std::shared_ptr<const Batch> Engine::give_front() {
  const std::shared_ptr<Slot> slot = std::move(slots_.front());
  slots_.pop_front();
  if (slot->error) {
    drop_slots();
    std::rethrow_exception(slot->error);
  }
  set_position(std::move(slot->next));
  if (!slot->batch->end_of_data) ++stats_.minibatches;
  stats_.samples += slot->batch->share_samples;
  stats_.cells += slot->batch->num_cells;
  wake_for_room();
  made_ = slot->made;
  const auto now = Clock::now();
  round_ = now - given_;
  given_ = now;
  return std::move(slot->batch);
}

void Engine::seek(std::uint64_t time, const Poll& poll) { resume({.time = time}, poll); }

void Engine::resume(const Position& position, const Poll& poll) {
  Lock lock(mutex_);
  take(lock, poll);
  const Raised raised(serving_, progress_);
  move_planner(lock, position, poll);
  set_position(planner_stands_);
}

EngineStats Engine::stats() const {
  EngineStats stats;
  {
    const std::scoped_lock lock(mutex_);
    stats = stats_;
    stats.serves_ahead = options_.num_threads > 0 && !pace_.is_tight();
  }
  stats.assembled = assembler_->stats();
  return stats;
}

}  // namespace sweephand
