// Threads that plan, load and assemble: the same minibatches whatever they do, and every end is
// clean. Meant for the sanitizers above all.
#include "base/error.hpp"
#include "base/mix.hpp"
#include "check.hpp"
#include "compose/fit.hpp"
#include "engine/engine.hpp"
#include "no_threads.hpp"
#include "order/timeline.hpp"
#include "run/thread_group.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

constexpr std::uint64_t kChunks = 24;
constexpr std::uint64_t kPerChunk = 40;
constexpr std::uint64_t kSequences = kChunks * kPerChunk;

std::uint32_t size_of(std::uint64_t sequence) {
  return 1 + static_cast<std::uint32_t>(mix64(sequence) % 5);
}

// Every sample of a sequence is its number. Each chunk fails `failures` times before it loads.
class Numbers final : public Deserializer {
 public:
  explicit Numbers(int failures = 0) : left_(kChunks) {
    for (std::atomic<int>& left : left_) left = failures;
  }

  std::shared_ptr<const Chunk> load(std::uint64_t number) override {
    std::this_thread::sleep_for(std::chrono::microseconds(mix64(number) % 300));
    if (left_[number].fetch_sub(1) > 0) throw DataError("not yet");
    auto data = std::make_shared<Data>();
    data->offsets.push_back(0);
    for (std::uint64_t i = 0; i < kPerChunk; ++i) {
      const std::uint64_t sequence = number * kPerChunk + i;
      data->values.insert(data->values.end(), size_of(sequence), sequence);
      data->offsets.push_back(static_cast<std::int64_t>(data->values.size()));
    }
    auto chunk = std::make_shared<Chunk>();
    chunk->columns.push_back({.values = reinterpret_cast<const std::byte*>(data->values.data()),
                              .sample_offsets = data->offsets.data(),
                              .element_bytes = 8,
                              .type = ElementType::kUInt64,
                              .num_sequences = kPerChunk,
                              .num_samples = data->values.size()});
    chunk->num_sequences = kPerChunk;
    chunk->bytes = 8 * data->values.size();
    chunk->owner = std::move(data);
    return chunk;
  }

 private:
  struct Data {
    std::vector<std::uint64_t> values;
    std::vector<std::int64_t> offsets;
  };
  std::vector<std::atomic<int>> left_;
};

std::shared_ptr<const Corpus> make_corpus() {
  const std::vector<std::uint64_t> sequences(kChunks, kPerChunk);
  std::vector<std::uint64_t> samples(kChunks, 0);
  std::vector<std::uint32_t> sizes;
  for (std::uint64_t s = 0; s < kSequences; ++s) {
    sizes.push_back(size_of(s));
    samples[s / kPerChunk] += sizes.back();
  }
  return std::make_shared<const Corpus>(
      Corpus{ChunkTable(sequences, samples), std::make_shared<StoredSizes>(sizes), nullptr});
}

struct Options {
  std::uint32_t num_threads = 0;
  std::uint32_t prefetch = 0;
  std::uint32_t load_threads = 0;
  int failures = 0;
  std::uint64_t limit = 12'000;
  bool adapts = false;
  bool may_take_turns = false;
};

std::unique_ptr<Engine> make_engine(const Options& options,
                                    std::shared_ptr<Deserializer> deserializer = nullptr) {
  if (!deserializer) deserializer = std::make_shared<Numbers>(options.failures);
  const auto corpus = make_corpus();
  const auto timeline = std::make_shared<const SweepTimeline>(
      corpus, OrderSettings{.seed = 7, .num_lanes = 4, .window_chunks = 8});
  Member member{.deserializer = std::move(deserializer),
                .made = nullptr,
                .chunks = corpus->chunks.first_sequences(),
                .load_threads = options.load_threads};
  StreamSpec stream{.name = "x",
                    .type = ElementType::kUInt64,
                    .element_bytes = 8,
                    .counts = true,
                    .pad_value = {}};
  std::vector<Member> members{std::move(member)};
  std::vector<StreamSpec> streams{std::move(stream)};
  return std::make_unique<Engine>(
      std::make_unique<FitPlanner>(timeline, Fitting{}, options.limit),
      std::make_shared<Assembler>(std::move(members), std::move(streams), AssembleOptions{},
                                  true, 0,
                                  [](const DataError& error) { throw DataError(error); }),
      EngineOptions{.num_threads = options.num_threads,
                    .prefetch = options.prefetch,
                    .adapts = options.adapts,
                    .may_take_turns = options.may_take_turns});
}

const Poll kPatient = [] {};

std::vector<std::uint64_t> values_of(const Batch& batch) {
  const StreamBatch& stream = batch.streams[0];
  const auto* values = stream.values.as<std::uint64_t>();
  return {values, values + stream.num_samples};
}

// Everything from here to the end of data, with sizes that change; errors are tried again.
std::vector<std::vector<std::uint64_t>> rest_of(Engine& engine) {
  std::vector<std::vector<std::uint64_t>> found;
  while (true) {
    const std::uint64_t size = 20 + found.size() / 10 % 3 * 15;
    try {
      const auto batch = engine.next({.num_samples = size}, kPatient);
      if (batch->end_of_data) return found;
      found.push_back(values_of(*batch));
    } catch (const DataError& error) {
      CHECK(error.reason() == "not yet");
    }
  }
}

void threads_change_nothing() {
  const auto wanted = rest_of(*make_engine({}));
  CHECK(wanted.size() > 50);
  for (const std::uint32_t num_threads : {0U, 1U, 3U}) {
    for (const std::uint32_t load_threads : {0U, 2U}) {
      for (const int failures : {0, 1}) {
        const auto engine = make_engine({.num_threads = num_threads,
                                         .prefetch = 2 * num_threads,
                                         .load_threads = load_threads,
                                         .failures = failures});
        CHECK(rest_of(*engine) == wanted);
      }
    }
  }
}

class Loop {
 public:
  explicit Loop(std::uint32_t num_threads = 1) : pace_(num_threads, 2, false) {}

  // Comes back so many times, each after `away`; minibatches take `cost`, `waited` of it for a
  // disk or a network.
  bool is_tight(int times, int away, int cost, int waited = 0) {
    const auto ns = [](int us) { return static_cast<std::uint64_t>(us) * 1000; };
    for (int i = 0; i < times; ++i)
      pace_.came_back(std::chrono::microseconds(away), {}, {ns(cost), ns(waited)});
    return pace_.is_tight();
  }

 private:
  Pace pace_;
};

void a_loop_that_comes_back_at_once_is_tight() {
  Loop loop;
  CHECK(!loop.is_tight(7, 10, 10));
  CHECK(loop.is_tight(1, 10, 10));
  CHECK(loop.is_tight(1, 5000, 10));  // as a garbage collection
  CHECK(!loop.is_tight(1, 5000, 10));
  CHECK(!loop.is_tight(100, 5000, 10));
  CHECK(loop.is_tight(8, 90, 100));  // sooner than a minibatch takes
  CHECK(!loop.is_tight(2, 110, 100));
}

void costly_minibatches_are_made_ahead_where_that_is_faster() {
  CHECK(Loop().is_tight(8, 200, 900));
  CHECK(!Loop().is_tight(20, 300, 900));
  CHECK(!Loop(2).is_tight(20, 10, 900));
  CHECK(Loop(2).is_tight(8, 10, 100));
}

// A loop that does nothing, over minibatches that may be made in turns.
class LoopOverTurns {
 public:
  // One comes every `ahead` by threads, and every `alone` by the caller, but number `late`,
  // which takes ten times as long; returns by whom each.
  std::vector<bool> alone(int times, int ahead, int alone, int late = -1) {
    std::vector<bool> found;
    for (int i = 0; i < times; ++i) {
      const int usual = pace_.is_tight() ? alone : ahead;
      const std::chrono::microseconds round(i == late ? 10 * usual : usual);
      pace_.came_back(std::chrono::microseconds(1), round, {1'000'000, 0});
      found.push_back(pace_.is_tight());
    }
    return found;
  }

  bool computes() {
    for (int i = 0; i < 2; ++i)
      pace_.came_back(std::chrono::milliseconds(1), std::chrono::milliseconds(2),
                      {1'000'000, 0});
    return pace_.is_tight();
  }

 private:
  Pace pace_{2, 2, true};
};

void what_takes_turns_is_tried_both_ways() {
  constexpr int kTrial = 8 + (24 + 3) + (8 + 3);
  LoopOverTurns in_turns;
  CHECK(in_turns.alone(kTrial, 1000, 900).back());
  CHECK(std::ranges::all_of(in_turns.alone(63, 1000, 900), std::identity{}));
  CHECK(!in_turns.alone(1, 1000, 900).back());  // is it still so?
  CHECK(!in_turns.computes());
  LoopOverTurns side_by_side;
  const std::vector<bool> tried = side_by_side.alone(kTrial, 500, 1000);
  CHECK(std::ranges::count(tried, true) == 6 + 3);  // that are twice as slow say enough
  CHECK(!tried.back());
  CHECK(std::ranges::none_of(side_by_side.alone(500, 500, 1000), std::identity{}));
  // Who makes them alone burns less.
  CHECK(LoopOverTurns().alone(kTrial, 1000, 1040).back());
  CHECK(!LoopOverTurns().alone(kTrial, 1000, 1060).back());
  // Another program may have the processor for a while.
  CHECK(LoopOverTurns().alone(kTrial, 1000, 900, kTrial - 4).back());
  // Few in the long run are made as they are made slower.
  CHECK(std::ranges::count(side_by_side.alone(10'000, 500, 1000), true) < 100);
}

void minibatches_that_are_waited_for_are_made_ahead() {
  Loop loop;
  CHECK(loop.is_tight(8, 10, 100, 20));
  CHECK(!loop.is_tight(2, 10, 100, 30));
  CHECK(!loop.is_tight(20, 10, 100, 30));
}

// The loop is tight for a while, then it is not, again and again.
void changing_who_makes_them_changes_nothing(bool may_take_turns) {
  const auto wanted = rest_of(*make_engine({}));
  const auto engine = make_engine(
      {.num_threads = 2, .prefetch = 3, .adapts = true, .may_take_turns = may_take_turns});
  std::vector<std::vector<std::uint64_t>> found;
  while (true) {
    const std::uint64_t size = 20 + found.size() / 10 % 3 * 15;
    const auto batch = engine->next({.num_samples = size}, kPatient);
    if (batch->end_of_data) break;
    found.push_back(values_of(*batch));
    if (found.size() % 40 > 30) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  CHECK(found == wanted);
  CHECK(engine->stats().made_ahead > 0);
}

void what_is_ready_is_given_at_once() {
  const Request request{.num_samples = 20};
  const auto calm = make_engine({});
  const auto engine = make_engine({.num_threads = 1, .prefetch = 2});
  CHECK(!engine->next_if_ready(request));  // no thread is there yet
  CHECK(values_of(*engine->next(request, kPatient)) ==
        values_of(*calm->next(request, kPatient)));
  for (int i = 0; i < 50; ++i) {
    CHECK(!engine->next_if_ready({.num_samples = 21}));
    std::shared_ptr<const Batch> batch;
    while (!batch) {
      std::this_thread::yield();
      batch = engine->next_if_ready(request);
    }
    CHECK(values_of(*batch) == values_of(*calm->next(request, kPatient)));
    CHECK(engine->time() == calm->time());
  }
  CHECK(engine->stats().minibatches == 51);
  engine->close(std::chrono::seconds(60));
  CHECK(!engine->next_if_ready(request));
}

void several_callers_get_every_minibatch_once() {
  const auto engine = make_engine({.num_threads = 2, .prefetch = 2, .load_threads = 1});
  std::vector<std::vector<std::uint64_t>> times(4);
  {
    ThreadGroup callers;
    for (auto& mine : times) {
      callers.start([&] {
        while (true) {
          const auto batch = engine->next({.num_samples = 30}, kPatient);
          if (batch->end_of_data) return;
          mine.push_back(batch->nominal_time);
          static_cast<void>(engine->stats());
        }
      });
    }
  }
  std::set<std::uint64_t> all;
  std::size_t count = 0;
  for (const auto& mine : times) {
    all.insert(mine.begin(), mine.end());
    count += mine.size();
  }
  const auto alone = make_engine({});
  for (const std::uint64_t time : all) {
    CHECK(alone->next({.num_samples = 30}, kPatient)->nominal_time == time);
  }
  CHECK(count == all.size());
}

void closing_ends_callers_and_threads(std::uint32_t num_threads) {
  const auto engine = make_engine(
      {.num_threads = num_threads, .prefetch = 2, .load_threads = 1, .limit = ~0ULL});
  std::atomic<int> ended = 0;
  {
    ThreadGroup callers;
    for (int i = 0; i < 3; ++i) {
      callers.start([&] {
        try {
          while (true) engine->next({.num_samples = 30}, kPatient);
        } catch (const std::runtime_error&) {
          ++ended;
        }
      });
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK(engine->close(std::chrono::seconds(10)));
  }
  CHECK(ended == 3);
  CHECK(engine->close(std::chrono::seconds(0)));
}

void without_threads_the_callers_do_everything() {
  const auto wanted = rest_of(*make_engine({}));
  const auto engine = make_engine({.num_threads = 3, .prefetch = 4, .load_threads = 2});
  std::vector<std::vector<std::uint64_t>> found;
  {
    const NoThreads none;
    found.push_back(values_of(*engine->next({.num_samples = 20}, kPatient)));
    engine->seek(0, kPatient);
    found = rest_of(*engine);
  }
  CHECK(found == wanted);
  engine->seek(0, kPatient);  // there are threads again
  CHECK(rest_of(*engine) == wanted);
  CHECK(engine->close(std::chrono::seconds(10)));
}

// Asks the engine that has a chunk loaded.
class Asking final : public Deserializer {
 public:
  explicit Asking(std::function<void()> ask) : ask_(std::move(ask)) {}
  std::shared_ptr<const Chunk> load(std::uint64_t number) override {
    ask_();
    return numbers_.load(number);
  }

 private:
  std::function<void()> ask_;
  Numbers numbers_;
};

void who_is_called_by_an_engine_may_not_wait_for_it(const Options& options) {
  Engine* own = nullptr;
  std::atomic<int> refused = 0;
  const auto engine =
      make_engine(options, std::make_shared<Asking>([&] {
                    CHECK(own->runs_here());
                    static_cast<void>(own->time());
                    static_cast<void>(own->stats());
                    CHECK_THROWS(std::runtime_error, own->next({.num_samples = 1}, kPatient));
                    CHECK_THROWS(std::runtime_error, own->seek(0, kPatient));
                    ++refused;
                  }));
  own = engine.get();
  for (int i = 0; i < 5; ++i) engine->next({.num_samples = 20}, kPatient);
  CHECK(refused > 0);
  CHECK(!engine->runs_here());
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::threads_change_nothing();
  sweephand::a_loop_that_comes_back_at_once_is_tight();
  sweephand::costly_minibatches_are_made_ahead_where_that_is_faster();
  sweephand::what_takes_turns_is_tried_both_ways();
  sweephand::minibatches_that_are_waited_for_are_made_ahead();
  sweephand::changing_who_makes_them_changes_nothing(false);
  sweephand::changing_who_makes_them_changes_nothing(true);
  sweephand::what_is_ready_is_given_at_once();
  sweephand::several_callers_get_every_minibatch_once();
  for (const std::uint32_t num_threads : {0U, 2U}) {
    sweephand::closing_ends_callers_and_threads(num_threads);
  }
  sweephand::without_threads_the_callers_do_everything();
  for (const std::uint32_t num_threads : {0U, 2U}) {
    for (const std::uint32_t load_threads : {0U, 2U}) {
      sweephand::who_is_called_by_an_engine_may_not_wait_for_it(
          {.num_threads = num_threads, .prefetch = 2, .load_threads = load_threads});
    }
  }
}
