#include "engine/mapped_sequences.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// The sequences of a share, each once, and the place of each piece's sequence among them.
struct Wanted {
  WantedSequences sequences;
  std::vector<std::size_t> place_of;
};

Wanted wanted_of(const Plan& plan, std::span<const std::uint64_t> numbers) {
  const std::vector<std::uint64_t> sweep = sweeps(plan);
  const bool in_pieces = !plan.cells.empty();
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> known;
  Wanted wanted;
  auto& [own_numbers, own_sweeps, own_sizes] = wanted.sequences;
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    std::size_t place = own_numbers.size();
    if (in_pieces) place = known.emplace(std::pair(numbers[j], sweep[j]), place).first->second;
    wanted.place_of.push_back(place);
    if (place < own_numbers.size()) continue;
    own_numbers.push_back(numbers[j]);
    own_sweeps.push_back(sweep[j]);
    own_sizes.push_back(in_pieces ? plan.cells[j].whole : plan.share[j].size);
  }
  return wanted;
}

// The planned sequences that are left, in the same order.
std::vector<std::uint64_t> places_left(std::span<const PlannedSequence> planned,
                                       std::span<const PlannedSequence> left) {
  std::vector<std::uint64_t> places;
  places.reserve(left.size());
  for (std::size_t j = 0; j < planned.size() && places.size() < left.size(); ++j) {
    const PlannedSequence& next = left[places.size()];
    if (planned[j].sequence == next.sequence && planned[j].sweep == next.sweep)
      places.push_back(j);
  }
  return places;
}

}  // namespace

MappedSequences::MappedSequences(std::shared_ptr<Assembler> stored,
                                 std::shared_ptr<const Sizes> sizes, std::uint64_t num_stored,
                                 std::vector<std::uint64_t> origins,
                                 std::shared_ptr<SequenceMap> map)
    : stored_(std::move(stored)),
      sizes_(std::move(sizes)),
      num_stored_(num_stored),
      origins_(std::move(origins)),
      map_(std::move(map)) {
  if (std::ranges::any_of(origins_, [&](auto origin) { return origin >= num_stored_; }))
    throw std::invalid_argument("what is mapped must be below " + std::to_string(num_stored_));
}

Plan MappedSequences::plan_of(const WantedSequences& wanted, const Plan& plan) const {
  Plan stored{.nominal_time = plan.nominal_time, .sweep = plan.sweep, .blocks = plan.blocks};
  std::vector<std::uint64_t> origins = wanted.numbers;
  if (!origins_.empty())
    std::ranges::transform(origins, origins.begin(), [&](auto n) { return origins_[n]; });
  std::vector<std::uint32_t> sizes(origins.size());
  sizes_->gather(origins, sizes);
  stored.share.reserve(origins.size());
  for (std::size_t i = 0; i < origins.size(); ++i) {
    stored.share.push_back({.sequence = origins[i],
                            .size = sizes[i],
                            .lane = 0,
                            .sweep = sweeps_behind(wanted.sweeps[i], plan)});
  }
  return stored;
}

Located MappedSequences::locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                                const Turn& turn) {
  Located located;
  if (plan.share.empty()) return located;
  Wanted wanted = wanted_of(plan, numbers);
  Plan stored_plan = plan_of(wanted.sequences, plan);
  const std::vector<PlannedSequence> planned = stored_plan.share;
  const auto stored = stored_->assemble(std::move(stored_plan), turn);
  const WorkClock clock;
  std::vector<std::uint64_t> places = places_left(planned, stored->share);
  for (auto& chunk : map_->make(std::move(wanted.sequences), std::move(places), stored))
    located.chunks.push_back({chunk, chunk->num_sequences});
  {
    const std::scoped_lock lock(mutex_);
    work_ += clock.elapsed();
  }
  std::vector<Located::Sequence> made;
  for (const auto& one : located.chunks) {
    for (std::uint64_t i = 0; i < one.planned; ++i) made.push_back({one.chunk.get(), i});
  }
  if (made.size() != planned.size())
    throw std::logic_error("a map made " + std::to_string(made.size()) + " of " +
                           std::to_string(planned.size()) + " sequences");
  located.sequences.reserve(plan.share.size());
  for (const std::size_t place : wanted.place_of) located.sequences.push_back(made[place]);
  return located;
}

LoadStats MappedSequences::stats() const {
  const AssembleStats stored = stored_->stats();
  LoadStats stats = stored;
  stats.load += stored.write;
  const std::scoped_lock lock(mutex_);
  stats.load += work_;
  return stats;
}

}  // namespace sweephand
