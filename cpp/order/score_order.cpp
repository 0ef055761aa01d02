#include "order/score_order.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// A shuffled item: its rank, or sort key, is in the high half.
constexpr std::uint64_t rank_of(std::uint64_t ranked) { return ranked >> 32; }
constexpr std::uint32_t item_of(std::uint64_t ranked) {
  return static_cast<std::uint32_t>(ranked);
}

constexpr std::uint64_t kStride = 64;  // places that are looked at together
constexpr std::uint64_t kFew = 4096;   // too few for a counting sort
constexpr unsigned kDigit = 11;        // bits of a pass of the counting sort

std::vector<std::uint32_t> mean_ranks(const ChunkTable& chunks,
                                      std::span<const std::uint32_t> ranks) {
  std::vector<std::uint32_t> means(chunks.num_chunks());
  for (std::uint64_t c = 0; c < means.size(); ++c) {
    const std::span own = ranks.subspan(chunks.first_sequence(c), chunks.sequences_in(c));
    if (own.empty()) continue;
    const std::uint64_t sum = std::accumulate(own.begin(), own.end(), std::uint64_t{0});
    means[c] = static_cast<std::uint32_t>(sum / own.size());
  }
  return means;
}

// A pass over a digit, from `from` into `to`; items with equal digits keep their order.
void deal(std::span<const std::uint64_t> from, std::span<std::uint64_t> to, unsigned shift) {
  std::array<std::uint64_t, std::size_t{1} << kDigit> ends{};
  const auto digit = [shift](std::uint64_t one) {
    return (one >> shift) & ((std::uint64_t{1} << kDigit) - 1);
  };
  for (const std::uint64_t one : from) ++ends[digit(one)];
  std::exclusive_scan(ends.begin(), ends.end(), ends.begin(), std::uint64_t{0});
  for (const std::uint64_t one : from) to[ends[digit(one)]++] = one;
}

// Sorts by rank, stably. REQUIRES: ranks are below `bound`
void sort_by_rank(std::vector<std::uint64_t>& ranked, std::uint64_t bound) {
  if (ranked.size() < kFew) {
    std::ranges::stable_sort(ranked, {}, rank_of);
    return;
  }
  std::vector<std::uint64_t> other(ranked.size());
  const auto bits = static_cast<unsigned>(std::bit_width(bound - 1));
  for (unsigned done = 0; done < bits; done += kDigit) {
    deal(ranked, other, 32 + done);
    ranked.swap(other);
  }
}

}  // namespace

ScoreOrder::ScoreOrder(const ChunkTable& chunks, std::vector<std::uint32_t> ranks,
                       ScoreRules rules)
    : rules_(std::move(rules)),
      num_levels_(rules_.odds.size() / kSteps),
      ranks_(std::move(ranks)) {
  const std::uint64_t count = chunks.num_sequences();
  if (ranks_.size() != count || std::max(count, chunks.num_chunks()) > UINT32_MAX) {
    throw std::invalid_argument(
        "there must be one rank for each sequence, and fewer than 2^32 of them; there are " +
        std::to_string(ranks_.size()) + " for " + std::to_string(count));
  }
  const std::uint64_t bound = num_levels_ == 0 ? count : num_levels_;
  const auto is_beyond = [bound](std::uint32_t rank) { return rank >= bound; };
  const auto is_no_noise = [](std::uint32_t noise) { return noise > kAllNoise; };
  const auto is_no_weight = [](std::uint32_t odds) { return odds > kAllNoise; };
  if (std::ranges::any_of(ranks_, is_beyond)) {
    throw std::invalid_argument("ranks must be below " + std::to_string(bound));
  }
  if (rules_.noises.empty() || std::ranges::any_of(rules_.noises, is_no_noise) ||
      rules_.odds.size() % kSteps != 0 || std::ranges::any_of(rules_.odds, is_no_weight)) {
    throw std::invalid_argument(
        "noises and odds must be in [0, 2^16], odds 1024 of each level");
  }
  chunk_ranks_ = mean_ranks(chunks, ranks_);
}

std::uint32_t ScoreOrder::noise(std::uint64_t sweep) const noexcept {
  return rules_.noises[std::min<std::uint64_t>(sweep, rules_.noises.size() - 1)];
}

bool ScoreOrder::orders(std::uint64_t sweep) const noexcept {
  return sweep < rules_.until_sweep && (num_levels_ != 0 || noise(sweep) != kAllNoise);
}

Stretch ScoreOrder::stretch_of(std::uint64_t sweep, std::uint64_t key, std::uint64_t begin,
                               std::uint64_t end, std::uint64_t count) const noexcept {
  Stretch stretch{.sweep = sweep, .key = key};
  if (rules_.over_sweep) {
    stretch.begin = begin * Stretch::kWhole / count;
    stretch.end = end * Stretch::kWhole / count;
  }
  return stretch;
}

Permutation ScoreOrder::in_order(const Permutation& shuffled, const Stretch& stretch) const {
  return in_order(shuffled, stretch, [this](std::span<std::uint64_t> chunks) {
    for (std::uint64_t& chunk : chunks) chunk = chunk_ranks_[chunk];
  });
}

Permutation ScoreOrder::in_order(const Permutation& shuffled, const Stretch& stretch,
                                 const ToRanks& to_ranks) const {
  std::vector<std::uint64_t> ranked(shuffled.size());
  std::array<std::uint64_t, kStride> items{};
  for (std::uint64_t place = 0; place < ranked.size(); place += kStride) {
    const std::uint64_t count = std::min(kStride, ranked.size() - place);
    const std::span ranks = std::span(ranked).subspan(place, count);
    shuffled.fill(place, ranks);
    std::ranges::copy(ranks, items.begin());
    to_ranks(ranks);
    for (std::uint64_t i = 0; i < count; ++i) ranks[i] = ranks[i] << 32 | items[i];
  }
  return Permutation(num_levels_ == 0 ? sorted(std::move(ranked), noise(stretch.sweep))
                                      : drawn(ranked, stretch));
}

// Orders by rank, and by the shuffled place in proportion to the noise.
std::vector<std::uint32_t> ScoreOrder::sorted(std::vector<std::uint64_t> ranked,
                                              std::uint64_t noise) const {
  const std::uint64_t count = ranked.size();
  for (std::uint64_t place = 0; noise != 0 && place < count; ++place) {
    const std::uint64_t rank = rank_of(ranked[place]);
    const std::uint64_t random = place * num_sequences() / count;
    const std::uint64_t key = ((kAllNoise - noise) * rank + noise * random) / kAllNoise;
    ranked[place] = key << 32 | item_of(ranked[place]);
  }
  sort_by_rank(ranked, num_sequences());
  std::vector<std::uint32_t> items(count);
  std::ranges::transform(ranked, items.begin(), item_of);
  return items;
}

// Place by place the next item of a level, which is drawn by its odds times its items left.
std::vector<std::uint32_t> ScoreOrder::drawn(std::span<const std::uint64_t> ranked,
                                             const Stretch& stretch) const {
  const std::uint64_t count = ranked.size();
  std::vector<std::uint64_t> left(num_levels_);
  for (const std::uint64_t one : ranked) ++left[rank_of(one)];
  std::vector<std::uint64_t> next(num_levels_);
  std::exclusive_scan(left.begin(), left.end(), next.begin(), std::uint64_t{0});
  std::vector<std::uint32_t> by_level(count);
  for (const std::uint64_t one : ranked) by_level[next[rank_of(one)]++] = item_of(one);
  std::exclusive_scan(left.begin(), left.end(), next.begin(), std::uint64_t{0});

  std::vector<std::uint32_t> items(count);
  std::span<const std::uint32_t> odds;
  const std::vector<std::uint32_t> even(num_levels_, 1);
  std::uint64_t total = 0;
  const auto take = [&](std::span<const std::uint32_t> chosen) {
    odds = chosen;
    total = std::inner_product(odds.begin(), odds.end(), left.begin(), std::uint64_t{0});
  };
  std::uint64_t step = kSteps;  // none yet
  for (std::uint64_t place = 0; place < count; ++place) {
    const std::uint64_t at = stretch.begin + place * (stretch.end - stretch.begin) / count;
    const std::uint64_t now = at * kSteps / Stretch::kWhole;
    if (now != step) {
      step = now;
      take(std::span(rules_.odds).subspan(step * num_levels_, num_levels_));
    }
    if (total == 0) take(even);  // up to the next step
    std::uint64_t draw = scale(mix64(stretch.key + kGolden * place), total);
    std::size_t level = 0;
    for (; draw >= odds[level] * left[level]; ++level) draw -= odds[level] * left[level];
    total -= odds[level];
    --left[level];
    items[place] = by_level[next[level]++];
  }
  return items;
}

}  // namespace sweephand
