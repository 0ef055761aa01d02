#include "engine/mixed_sequences.hpp"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <new>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kMarks = std::uint64_t{1} << 16;  // that tell sweeps apart
constexpr auto kUntold = std::numeric_limits<std::uint16_t>::max();

// The sweep of a corpus from which the planned sequences of a minibatch are counted.
std::uint64_t first_sweep(const Plan& plan, const Rate& rate, std::uint64_t sweep_samples) {
  const std::uint64_t near =
      rate.due(std::min(plan.nominal_time, Rate::kMaxTime)) / sweep_samples;
  return near - std::min(near, kMarks / 2);
}

// As many offsets, all of them 0, and no page of memory is touched for many.
std::shared_ptr<const std::int64_t> no_offsets(std::uint64_t count) {
  auto* const zeros = static_cast<std::int64_t*>(std::calloc(count, sizeof(std::int64_t)));
  if (zeros == nullptr) throw std::bad_alloc();
  return {zeros, std::free};
}

// A column in which no sequence has a sample.
Column empty_column(const StreamSpec& stream, const std::int64_t* offsets,
                    std::uint64_t num_sequences) {
  static constexpr std::byte kNothing{};
  static constexpr std::int32_t kNoIndex = 0;
  return {.values = &kNothing,
          .sample_offsets = offsets,
          .element_offsets = stream.variable ? offsets : nullptr,
          .indices = stream.sparse ? &kNoIndex : nullptr,
          .element_bytes = stream.element_bytes,
          .sample_elements = stream.sample_elements,
          .type = stream.type,
          .num_sequences = num_sequences};
}

// The same with its columns in another order, and with those that it lacks.
std::shared_ptr<const Chunk> reordered(const std::shared_ptr<const Chunk>& chunk,
                                       std::span<const std::uint32_t> columns,
                                       std::span<const StreamSpec> absent) {
  struct Owner {
    std::shared_ptr<const Chunk> chunk;
    std::shared_ptr<const std::int64_t> offsets;
  };
  auto owner = std::make_shared<Owner>(chunk);
  if (!absent.empty()) owner->offsets = no_offsets(chunk->num_sequences + 1);
  auto made = std::make_shared<Chunk>();
  const std::size_t own = columns.size() - absent.size();
  for (const std::uint32_t column : columns) {
    made->columns.push_back(
        column < own
            ? chunk->columns[column]
            : empty_column(absent[column - own], owner->offsets.get(), chunk->num_sequences));
  }
  made->num_sequences = chunk->num_sequences;
  made->skipped = chunk->skipped;
  made->owner = std::move(owner);
  return made;
}

}  // namespace

MixedSequences::MixedSequences(std::vector<MixedMember> members, bool load_ahead,
                               bool led_by_first, const Report& report)
    : first_sequences_{0}, first_chunks_{0} {
  for (MixedMember& one : members) {
    const ChunkTable& chunks = one.corpus->chunks;
    first_sequences_.push_back(first_sequences_.back() + chunks.num_sequences());
    first_chunks_.push_back(first_chunks_.back() + chunks.num_chunks());
    std::vector<Member> own;
    own.push_back(std::move(one.member));
    std::vector<std::uint32_t> same(one.columns.size());
    std::iota(same.begin(), same.end(), 0U);
    if (one.columns == same && one.absent.empty()) one.columns.clear();
    own_.push_back(
        {.members = std::make_unique<Members>(std::move(own), one.streams, load_ahead,
                                              led_by_first ? chunks.num_chunks() : 0, report),
         .columns = std::move(one.columns),
         .absent = std::move(one.absent),
         .corpus = std::move(one.corpus),
         .rate = std::move(one.rate)});
  }
}

std::vector<MixedSequences::Share> MixedSequences::split(
    const Plan& plan, std::span<const std::uint64_t> numbers) const {
  std::vector<Share> shares(own_.size());
  std::vector<bool> tells_sweeps(own_.size());
  for (std::size_t c = 0; c < own_.size(); ++c) {
    const std::uint64_t sweep_samples = own_[c].corpus->chunks.num_samples();
    shares[c].plan.nominal_time = plan.nominal_time;
    shares[c].plan.sweep = first_sweep(plan, own_[c].rate, sweep_samples);
    tells_sweeps[c] = plan.num_samples / sweep_samples < kMarks / 4;
  }
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    const auto next = std::ranges::upper_bound(first_sequences_, numbers[j]);
    const auto c = static_cast<std::size_t>(next - first_sequences_.begin()) - 1;
    Share& share = shares[c];
    PlannedSequence own = plan.share[j];
    own.sequence = numbers[j] - first_sequences_[c];
    own.sweep =
        tells_sweeps[c] ? static_cast<std::uint16_t>(own.sweep - share.plan.sweep) : kUntold;
    share.plan.share.push_back(own);
    if (!plan.cells.empty()) share.plan.cells.push_back(plan.cells[j]);
    share.places.push_back(j);
  }
  for (const auto& block : plan.blocks) {
    const auto own = std::ranges::find(own_, block->corpus(), &Own::corpus);
    if (own != own_.end())
      shares[static_cast<std::size_t>(own - own_.begin())].plan.blocks.push_back(block);
  }
  return shares;
}

Located MixedSequences::locate_own(Own& own, const Plan& plan, const Poll& poll) {
  const Members::Making making(*own.members, plan);
  Located located = own.members->locate(0, plan, poll);
  if (own.members->keeps_chunks()) own.members->settle(located.chunks.size());
  if (own.columns.empty()) return located;
  std::map<const Chunk*, const Chunk*> made;
  for (auto& chunk : located.chunks) {
    const Chunk* const before = chunk.get();
    chunk = reordered(chunk, own.columns, own.absent);
    made[before] = chunk.get();
  }
  for (auto& sequence : located.sequences) {
    if (sequence.chunk != nullptr) sequence.chunk = made.at(sequence.chunk);
  }
  return located;
}

Located MixedSequences::locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                               const Poll& poll) {
  Located all;
  all.sequences.resize(numbers.size());
  const std::vector<Share> shares = split(plan, numbers);
  for (std::size_t c = 0; c < own_.size(); ++c) {
    const auto& [own_plan, places] = shares[c];
    if (places.empty() && own_plan.blocks.empty()) continue;
    Located own = locate_own(own_[c], own_plan, poll);
    for (std::size_t i = 0; i < places.size(); ++i) all.sequences[places[i]] = own.sequences[i];
    all.chunks.insert(all.chunks.end(), own.chunks.begin(), own.chunks.end());
  }
  return all;
}

void MixedSequences::load_ahead(std::span<const std::uint64_t> chunks) {
  for (std::size_t c = 0; c < own_.size(); ++c) {
    std::vector<std::uint64_t> own;
    for (const std::uint64_t chunk : chunks) {
      if (first_chunks_[c] <= chunk && chunk < first_chunks_[c + 1])
        own.push_back(chunk - first_chunks_[c]);
    }
    own_[c].members->load_ahead(own);
  }
}

bool MixedSequences::close(std::chrono::duration<double> limit) {
  bool ended = true;
  for (const Own& own : own_) ended = own.members->close(limit) && ended;
  return ended;
}

LoadStats MixedSequences::stats() const {
  LoadStats stats;
  for (const Own& own : own_) stats += own.members->stats();
  return stats;
}

}  // namespace sweephand
