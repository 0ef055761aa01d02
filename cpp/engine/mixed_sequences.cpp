#include "engine/mixed_sequences.hpp"

#include <cstdlib>
#include <limits>
#include <new>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kMarks = std::uint64_t{1} << 16;  // that distinguish sweeps
constexpr auto kUntold = std::numeric_limits<std::uint16_t>::max();

// The sweep of a corpus from which the planned sequences of a minibatch are counted.
std::uint64_t first_sweep(const Plan& plan, const Rate& rate, std::uint64_t sweep_samples) {
  const std::uint64_t near =
      rate.due(std::min(plan.nominal_time, Rate::kMaxTime)) / sweep_samples;
  return near - std::min(near, kMarks / 2);
}

// Offsets that are all 0; many of them touch no page of memory.
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
    numbers_.try_emplace(one.corpus.get(), own_.size());
    own_.push_back(
        {.members = std::make_unique<Members>(std::move(own), one.streams, load_ahead,
                                              led_by_first ? chunks.num_chunks() : 0, report),
         .columns = std::move(one.columns),
         .absent = std::move(one.absent),
         .corpus = std::move(one.corpus),
         .rate = std::move(one.rate)});
    Own& made = own_.back();
    made.in_memory = made.members->resident(0);
    if (made.in_memory && !made.columns.empty())
      made.in_memory = reordered(made.in_memory, made.columns, made.absent);
  }
  guess_ = EvenGuess(own_.size(), first_sequences_.back());
}

// Data in memory need no search.
std::vector<MixedSequences::Share> MixedSequences::split(const Plan& plan,
                                                         std::span<const std::uint64_t> numbers,
                                                         Located& in_memory) const {
  constexpr auto kNone = std::numeric_limits<std::uint32_t>::max();
  std::vector<Share> shares;
  std::vector<std::uint32_t> place_of(own_.size(), kNone);  // of a corpus: its share, or chunk
  const auto share_of = [&](std::size_t c) -> Share& {
    if (place_of[c] == kNone) {
      place_of[c] = static_cast<std::uint32_t>(shares.size());
      Plan& own = shares.emplace_back(c).plan;
      own.nominal_time = plan.nominal_time;
      own.sweep = first_sweep(plan, own_[c].rate, own_[c].corpus->chunks.num_samples());
    }
    return shares[place_of[c]];
  };
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    const std::size_t c = corpus_of(numbers[j]);
    PlannedSequence own = plan.share[j];
    own.sequence = numbers[j] - first_sequences_[c];
    if (const auto& chunk = own_[c].in_memory) {
      if (std::exchange(place_of[c], 0) == kNone)
        in_memory.chunks.push_back({chunk, chunk->num_sequences});
      in_memory.sequences[j] = {chunk.get(), own_[c].members->number_of(0, own)};
      continue;
    }
    Share& share = share_of(c);
    const bool tells_sweeps =
        plan.num_samples / own_[c].corpus->chunks.num_samples() < kMarks / 4;
    own.sweep =
        tells_sweeps ? static_cast<std::uint16_t>(own.sweep - share.plan.sweep) : kUntold;
    share.plan.share.push_back(own);
    if (!plan.cells.empty()) share.plan.cells.push_back(plan.cells[j]);
    share.places.push_back(j);
  }
  for (const auto& block : plan.blocks) {
    const auto own = numbers_.find(block->corpus().get());
    if (own != numbers_.end() && !own_[own->second].in_memory)
      share_of(own->second).plan.blocks.push_back(block);
  }
  return shares;
}

Located MixedSequences::locate_own(Own& own, const Plan& plan, const Turn& turn) {
  const Members::Making making(*own.members, plan);
  Located located = own.members->locate(0, plan, turn);
  if (own.members->keeps_chunks()) own.members->settle(located.chunks.size());
  if (own.columns.empty()) return located;
  std::map<const Chunk*, const Chunk*> made;
  for (auto& one : located.chunks) {
    const Chunk* const before = one.chunk.get();
    one.chunk = reordered(one.chunk, own.columns, own.absent);
    made[before] = one.chunk.get();
  }
  for (auto& sequence : located.sequences) {
    if (sequence.chunk != nullptr) sequence.chunk = made.at(sequence.chunk);
  }
  return located;
}

Located MixedSequences::locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                               const Turn& turn) {
  Located all;
  all.sequences.resize(numbers.size());
  for (const auto& [corpus, own_plan, places] : split(plan, numbers, all)) {
    Located own = locate_own(own_[corpus], own_plan, turn);
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
