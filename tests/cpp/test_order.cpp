// Lanes that are passed by search, beside the same lanes in order.
#include "base/mix.hpp"
#include "check.hpp"
#include "index/corpus.hpp"
#include "order/timeline.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <span>
#include <vector>

namespace sweephand {
namespace {

constexpr std::uint64_t kChunks = 80;
constexpr std::uint64_t kPerChunk = 50;

std::shared_ptr<const Corpus> corpus_of(std::uint32_t most) {
  std::vector<std::uint32_t> sizes(kChunks * kPerChunk);
  for (std::uint64_t s = 0; s < sizes.size(); ++s)
    sizes[s] = 1 + static_cast<std::uint32_t>(mix64(s) % most);
  std::vector<std::uint64_t> samples;
  for (std::uint64_t c = 0; c < kChunks; ++c) {
    const auto part = std::span(sizes).subspan(c * kPerChunk, kPerChunk);
    samples.push_back(std::accumulate(part.begin(), part.end(), std::uint64_t{0}));
  }
  return std::make_shared<const Corpus>(
      Corpus{ChunkTable(std::vector<std::uint64_t>(kChunks, kPerChunk), samples),
             std::make_shared<StoredSizes>(sizes), nullptr});
}

// Takes `count` sequences, which the sweep has, and returns their numbers.
std::vector<std::uint64_t> take(Cursor& cursor, std::size_t count) {
  std::vector<std::uint64_t> numbers;
  while (numbers.size() < count) {
    const PlannedSequence front = cursor.ahead().front();
    numbers.push_back(front.sequence);
    cursor.pop(1, front.size);
  }
  return numbers;
}

std::vector<std::uint64_t> in_key_order(std::span<const LaneRun> runs) {
  std::vector<KeyedSequence> passed;
  for (const LaneRun& run : runs) add_sequences(run, passed);
  std::ranges::sort(passed, {}, &KeyedSequence::key);
  std::vector<std::uint64_t> numbers;
  for (const KeyedSequence& one : passed) numbers.push_back(one.sequence.sequence);
  return numbers;
}

// Passes about a third of the sweep behind `first` sequences, and goes on one by one to the
// end.
void pass_behind(const Timeline& timeline, std::size_t first) {
  const std::unique_ptr<Cursor> passing = timeline.cursor(0);
  const std::unique_ptr<Cursor> walking = timeline.cursor(0);
  CHECK(take(*passing, first) == take(*walking, first));
  std::size_t taken = first;
  for (int turn = 0; turn < 2; ++turn) {
    const std::uint64_t before = passing->time();
    const std::uint64_t wanted = timeline.num_samples() / 3;
    const std::vector<LaneRun> runs = passing->pass(wanted);
    CHECK(!runs.empty());
    CHECK(std::ranges::is_sorted(runs, {}, &LaneRun::lane));
    const std::vector<std::uint64_t> passed = in_key_order(runs);
    CHECK(passed == take(*walking, passed.size()));
    CHECK(passing->time() == walking->time());
    CHECK(passing->time() <= before + wanted);
    CHECK(passing->time() > before + wanted * 3 / 4);
    CHECK(take(*passing, 40) == take(*walking, 40));
    taken += passed.size() + 40;
  }
  const std::size_t left = timeline.corpus().chunks.num_sequences() - taken;
  CHECK(take(*passing, left) == take(*walking, left));
  CHECK(passing->sweep_done());
  CHECK(walking->sweep_done());
}

void lanes_that_are_passed_hold_what_comes_in_order() {
  for (const std::uint32_t most : {1U, 9U}) {
    const auto corpus = corpus_of(most);
    for (const OrderSettings& setting :
         {OrderSettings{.seed = 1, .num_lanes = 4},
          OrderSettings{.seed = 2, .num_lanes = 7, .window_chunks = 7},
          OrderSettings{.seed = 3, .num_lanes = 5, .window_chunks = 20},
          OrderSettings{.seed = 4, .num_lanes = 16, .window_samples = 2000}}) {
      const auto timeline = std::make_shared<const SweepTimeline>(corpus, setting);
      for (const std::size_t first : {0U, 1U, 7U, 100U, 333U}) pass_behind(*timeline, first);
    }
  }
}

// All of it is less than what is wanted.
void the_end_of_a_sweep_is_passed() {
  const auto timeline =
      std::make_shared<const SweepTimeline>(corpus_of(9), OrderSettings{.num_lanes = 8});
  const std::unique_ptr<Cursor> cursor = timeline->cursor(timeline->num_samples() / 2);
  const std::uint64_t time = cursor->time();
  std::uint64_t passed = 0;
  for (const LaneRun& run : cursor->pass(timeline->num_samples())) passed += run.samples;
  CHECK(time + passed == timeline->num_samples());
  CHECK(cursor->sweep_done());
  CHECK(cursor->time() == timeline->num_samples());
  CHECK(cursor->pass(timeline->num_samples()).empty());
  cursor->enter_next_sweep();
  CHECK(!cursor->sweep_done());
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::lanes_that_are_passed_hold_what_comes_in_order();
  sweephand::the_end_of_a_sweep_is_passed();
  return 0;
}
