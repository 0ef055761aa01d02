// Planners over sizes and orders that lie: whatever these say, a plan ends, with a place or an
// error.
#include "base/error.hpp"
#include "base/mix.hpp"
#include "check.hpp"
#include "compose/bptt.hpp"
#include "compose/bucketed.hpp"
#include "compose/fit.hpp"
#include "compose/packed.hpp"
#include "index/corpus.hpp"
#include "order/sweep_cursor.hpp"
#include "order/timeline.hpp"

#include <algorithm>
#include <atomic>
#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

constexpr std::uint64_t kChunks = 6;
constexpr std::uint64_t kPerChunk = 20;
constexpr std::uint64_t kSequences = kChunks * kPerChunk;
constexpr std::uint32_t kMost = std::numeric_limits<std::uint32_t>::max();

using Lie = std::function<void(std::vector<std::uint32_t>&)>;

std::vector<std::uint32_t> honest_sizes() {
  std::vector<std::uint32_t> sizes(kSequences);
  for (std::uint64_t s = 0; s < kSequences; ++s)
    sizes[s] = 1 + static_cast<std::uint32_t>(mix64(s) % 9);
  return sizes;
}

ChunkTable table_of(std::span<const std::uint32_t> sizes) {
  std::vector<std::uint64_t> samples;
  for (std::uint64_t c = 0; c < kChunks; ++c) {
    const auto part = sizes.subspan(c * kPerChunk, kPerChunk);
    samples.push_back(std::accumulate(part.begin(), part.end(), std::uint64_t{0}));
  }
  return {std::vector<std::uint64_t>(kChunks, kPerChunk), samples};
}

// Says another thing after `honest` looks.
class ChangingSizes final : public Sizes {
 public:
  ChangingSizes(std::uint64_t honest, std::uint64_t salt) : honest_(honest), salt_(salt) {}
  bool in_memory() const noexcept override { return false; }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override {
    auto sizes = honest_sizes();
    // The sum of a chunk stays, so that no sum tells.
    if (looks_++ >= honest_) {
      const std::uint64_t chunk = first / kPerChunk * kPerChunk;
      for (std::uint64_t i = 0; i < kPerChunk; ++i) {
        const std::uint64_t other = chunk + mix64(looks_ + salt_ + i) % kPerChunk;
        std::swap(sizes[chunk + i], sizes[other]);
      }
    }
    std::copy_n(sizes.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  }

 private:
  std::uint64_t honest_;
  std::uint64_t salt_;
  mutable std::atomic<std::uint64_t> looks_ = 0;
};

// Orders of the data's own that are none.
class LyingOrder final : public GivenOrder {
 public:
  explicit LyingOrder(std::uint64_t kind) : kind_(kind) {}
  void fill(std::uint64_t /*sweep*/, std::uint64_t first,
            std::span<std::uint64_t> out) const override {
    for (std::uint64_t i = 0; i < out.size(); ++i) {
      const std::uint64_t outside = kind_ == 0 ? 0 : kSequences + i;
      out[i] = kind_ == 2 ? kSequences - 1 - (first + i) : outside;
    }
  }
  std::uint64_t place(std::uint64_t /*sweep*/, std::uint64_t sequence) const override {
    return kind_ == 2 ? sequence : kSequences + sequence * 1000;
  }

 private:
  std::uint64_t kind_;
};

using Planners = std::vector<std::unique_ptr<Planner>>;

Planners planners_of(const std::shared_ptr<const Timeline>& timeline) {
  Planners planners;
  planners.push_back(std::make_unique<FitPlanner>(timeline, Fitting{}));
  planners.push_back(
      std::make_unique<PackedPlanner>(timeline, Packing{.row_length = 4, .split_long = true}));
  planners.push_back(std::make_unique<PackedPlanner>(timeline, Packing{.row_length = 16}));
  planners.push_back(
      std::make_unique<BucketedPlanner>(timeline, Bucketing{.boundaries = {3, 6, 9, 50}}));
  planners.push_back(std::make_unique<BpttPlanner>(timeline, Truncation{.length = 5}));
  return planners;
}

// Goes over some sweeps and asks all questions. Returns how many of the errors came.
int use(Planner& planner, std::uint32_t num_workers) {
  int errors = 0;
  const auto attempt = [&](const auto& ask) {
    try {
      ask();
    } catch (const DataError&) {
      ++errors;
    } catch (const std::logic_error&) {
      ++errors;
    }
  };
  attempt([&] {
    for (int i = 0; i < 200; ++i) planner.next({.num_samples = 13, .num_workers = 2});
  });
  attempt([&] { planner.seek(77); });
  attempt([&] {
    for (int i = 0; i < 50; ++i) {
      const Cost cost{.is_quadratic = i % 2 == 0};
      planner.next({.num_samples = 40, .num_workers = 2, .balance = cost});
    }
  });
  // So many that the order of all is not needed.
  attempt([&] {
    for (int i = 0; i < 2; ++i) {
      const std::optional<Cost> cost = i % 2 == 0 ? std::nullopt : std::optional<Cost>{Cost{}};
      planner.next({.num_samples = 2200, .num_workers = num_workers, .balance = cost});
    }
  });
  for (const std::uint64_t sequence : {std::uint64_t{0}, kSequences / 2, kSequences - 1}) {
    attempt([&] { planner.find(sequence, 1, 13); });
  }
  attempt([&] { planner.sequences_in(30, 90, 13); });
  return errors;
}

std::vector<OrderSettings> settings() {
  return {{.seed = 3, .num_lanes = 4, .window_chunks = 4},
          {.seed = 3, .num_lanes = 7},
          {.seed = 3, .num_lanes = 2, .window_chunks = 2},
          {.randomize = false}};
}

// Of all planners, for the corpus under every setting.
int use_all(const Corpus& corpus) {
  int errors = 0;
  for (const OrderSettings& setting : settings()) {
    const auto timeline = std::make_shared<const SweepTimeline>(
        std::make_shared<const Corpus>(Corpus{corpus.chunks, corpus.sizes, corpus.order}),
        setting);
    const std::uint32_t num_workers = std::min(4U, setting.num_lanes);
    for (const auto& planner : planners_of(timeline)) errors += use(*planner, num_workers);
  }
  return errors;
}

void honest_sizes_are_planned_without_an_error() {
  const auto sizes = honest_sizes();
  const Corpus corpus{table_of(sizes), std::make_shared<StoredSizes>(sizes), nullptr};
  CHECK(use_all(corpus) == 0);
}

void sizes_that_do_not_sum_to_the_table_are_an_error() {
  const std::vector<Lie> lies = {
      [](auto& sizes) { std::ranges::fill(sizes, 0U); },
      [](auto& sizes) { sizes[17] = 0; },
      [](auto& sizes) { sizes.back() = 0; },
      [](auto& sizes) { ++sizes[50]; },
      [](auto& sizes) { sizes[50] = kMost; },
      [](auto& sizes) { std::ranges::fill(sizes, kMost); },
      [](auto& sizes) { std::ranges::fill(sizes, 1U); },
      // Right in all, wrong in the chunks.
      [](auto& sizes) {
        sizes[0] += 3;
        sizes[kPerChunk] = 0;
      },
  };
  const auto honest = honest_sizes();
  for (const Lie& lie : lies) {
    auto sizes = honest;
    lie(sizes);
    const Corpus corpus{table_of(honest), std::make_shared<StoredSizes>(sizes), nullptr};
    CHECK(use_all(corpus) > 0);
  }
}

void sizes_that_change_between_two_looks_end_in_a_plan_or_an_error() {
  const ChunkTable table = table_of(honest_sizes());
  for (std::uint64_t honest = 0; honest < 24; ++honest) {
    for (std::uint64_t salt = 0; salt < 8; ++salt) {
      use_all({table, std::make_shared<ChangingSizes>(honest, salt), nullptr});
    }
  }
}

void an_order_that_is_none_ends_in_a_plan_or_an_error() {
  const auto sizes = honest_sizes();
  const ChunkTable table = table_of(sizes);
  const std::vector<std::uint64_t> ones(kChunks, kPerChunk);
  for (std::uint64_t kind = 0; kind < 3; ++kind) {
    const auto order = std::make_shared<LyingOrder>(kind);
    const int errors = use_all({table, std::make_shared<StoredSizes>(sizes), order});
    if (kind != 2) CHECK(errors > 0);
    use_all({ChunkTable(ones, ones), std::make_shared<CommonSize>(1), order});
  }
}

void a_sequence_of_too_many_pieces_is_refused_before_they_are_made() {
  const Corpus corpus{
      ChunkTable(std::vector<std::uint64_t>{1}, std::vector<std::uint64_t>{kMost}),
      std::make_shared<CommonSize>(kMost)};
  PackedPlanner planner(std::make_shared<const SweepTimeline>(
                            std::make_shared<const Corpus>(corpus), OrderSettings{}),
                        Packing{.row_length = 1, .split_long = true});
  CHECK_THROWS(std::invalid_argument, planner.next({.num_samples = 10}));
}

struct Begin {
  std::uint64_t offset;
  std::uint32_t lane;
  auto operator<=>(const Begin&) const = default;
};

// Sequences of a lane whose numbers are where they begin.
std::vector<PlannedSequence> a_lane(std::uint16_t lane, std::uint64_t first,
                                    std::uint64_t largest) {
  std::vector<PlannedSequence> sequences;
  for (std::uint32_t i = 0; i < 50; ++i) {
    const auto size = static_cast<std::uint32_t>(1 + mix64(lane * 50 + i) % largest);
    sequences.push_back({.sequence = first, .size = size, .lane = lane, .sweep = 0});
    first += size;
  }
  return sequences;
}

// Adds what begins before `end` of a lane to both.
void merge_a_lane(std::uint16_t lane, std::uint64_t largest, std::uint64_t end, Merge& merge,
                  std::vector<PlannedSequence>& all, std::vector<Begin>& begins) {
  std::uint64_t offset = 1'000 + lane % 3;
  const std::vector<PlannedSequence> sequences = a_lane(lane, offset, largest);
  const std::size_t taken = merge.add(sequences, all.size(), offset, 1'000, end);
  all.insert(all.end(), sequences.begin(), sequences.end());
  const std::span first = std::span(sequences).first(taken);
  for (const PlannedSequence& one : first) begins.push_back({one.sequence, lane});
  CHECK(std::ranges::all_of(first, [&](const auto& one) { return one.sequence < end; }));
  if (taken == sequences.size()) return;
  CHECK(offset == sequences[taken].sequence);
  CHECK(offset >= end);
}

// Sizes of one, of all kinds, and far apart: a counting sort meets crowds and gaps.
void lanes_are_merged_in_the_order_of_offset_and_lane() {
  for (const std::uint64_t largest : {1U, 5U, 100'000U}) {
    const std::uint64_t end = 1'000 + 40 * largest;
    Merge merge;
    std::vector<PlannedSequence> all;
    std::vector<Begin> begins;
    for (std::uint16_t lane = 0; lane < 37; ++lane)
      merge_a_lane(lane, largest, end, merge, all, begins);
    std::ranges::sort(begins);
    std::vector<PlannedSequence> sorted;
    merge.sort(all, sorted);
    CHECK(merge.size() == 0);
    CHECK(std::ranges::equal(sorted, begins, {}, [](const PlannedSequence& one) {
      return Begin{one.sequence, one.lane};
    }));
  }
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::lanes_are_merged_in_the_order_of_offset_and_lane();
  sweephand::honest_sizes_are_planned_without_an_error();
  sweephand::sizes_that_do_not_sum_to_the_table_are_an_error();
  sweephand::sizes_that_change_between_two_looks_end_in_a_plan_or_an_error();
  sweephand::an_order_that_is_none_ends_in_a_plan_or_an_error();
  sweephand::a_sequence_of_too_many_pieces_is_refused_before_they_are_made();
  return 0;
}
