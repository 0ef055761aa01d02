#include "engine/members.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// Chunks of the corpus as the member divides it.
std::uint64_t num_chunks(const Member& member) {
  const auto& starts = member.parts.starts;
  return starts.empty() ? member.chunks.num_counts() : starts.size() - 1;
}

}  // namespace

Members::Making::Making(Members& members, const Plan& plan) : members_(members) {
  ++members_.num_making_;
  if (members_.any_cached_) members_.open_blocks(plan);
}

Members::Members(std::vector<Member> members, std::span<const StreamSpec> streams,
                 bool load_ahead, std::uint64_t led_by, Report report)
    : members_(std::move(members)),
      streams_(streams.begin(), streams.end()),
      report_(std::move(report)) {
  for (std::size_t number = 0; number < members_.size(); ++number)
    open(number, load_ahead, led_by);
}

void Members::open(std::size_t number, bool load_ahead, std::uint64_t led_by) {
  const Member& member = members_[number];
  const std::uint64_t num_sequences =
      member.made ? member.made->num_sequences() : member.chunks.total();
  if (std::ranges::any_of(member.joined,
                          [&](auto sequence) { return sequence >= num_sequences; }))
    throw std::invalid_argument("a joined sequence must be below " +
                                std::to_string(num_sequences));
  const auto& starts = member.parts.starts;
  if (!starts.empty() && starts.back() != member.chunks.num_counts())
    throw std::invalid_argument("the parts of chunks end at another number than they are");
  if (member.made) {
    resident_.push_back(nullptr);
    caches_.push_back(nullptr);
    any_cached_ = any_cached_ || member.made->keeps_chunks();
    if (number == 0) loads_ahead_ = member.made->loads_ahead();
    return;
  }
  const Access access = member.deserializer->access();
  resident_.push_back(access == Access::kResident ? member.deserializer->load(0) : nullptr);
  const Chunk* corpus = resident_.back().get();
  if (corpus != nullptr && (corpus->num_sequences != num_sequences ||
                            !fits(*corpus, streams_, static_cast<std::uint32_t>(number))))
    throw std::invalid_argument("the corpus in memory is not what was planned");
  caches_.push_back(nullptr);
  if (access != Access::kChunks) return;
  any_cached_ = true;
  Retention retention{.is_first = number == 0 && led_by == 0,
                      .open_chunks = member.open_chunks,
                      .num_chunks = member.chunks.num_counts(),
                      .first_chunks = led_by == 0 ? num_chunks(members_[0]) : led_by,
                      .parts = member.parts};
  const std::uint32_t num_threads = load_ahead ? member.load_threads : 0;
  if (number == 0) loads_ahead_ = num_threads > 0;
  caches_.back() = std::make_unique<ChunkCache>(member.deserializer, num_threads,
                                                std::move(retention), member.in_turns);
}

bool Members::all_resident() const noexcept {
  for (std::size_t number = 0; number < members_.size(); ++number) {
    const auto& made = members_[number].made;
    if (!resident_[number] && !(made && made->in_memory())) return false;
  }
  return true;
}

// True if the chunk holds its planned sequences; otherwise it was reported.
bool Members::is_usable(std::size_t number, const Chunk& chunk, std::uint64_t num_sequences,
                        const Place& place) const {
  if (chunk.num_sequences != num_sequences) {
    report_(StaleError("there are " + std::to_string(chunk.num_sequences) + " sequences, but " +
                           std::to_string(num_sequences) +
                           " were planned; the data changed since they were measured, or the "
                           "index is not theirs: build it again",
                       place));
    return false;
  }
  if (fits(chunk, streams_, static_cast<std::uint32_t>(number))) return true;
  report_(StaleError("the streams are not of the kinds that they had when the source was made",
                     place));
  return false;
}

Located Members::locate(std::size_t number, const Plan& plan, const Turn& turn) {
  if (resident_[number]) return locate_in_memory(number, plan);
  const Member& member = members_[number];
  std::vector<std::uint64_t> sequences;
  sequences.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share)
    sequences.push_back(member.number_of(planned));
  if (member.made) return make(number, plan, sequences, turn);
  return caches_[number] ? locate_in_chunks(number, sequences, turn)
                         : fetch(number, sequences, turn);
}

Located Members::make(std::size_t number, const Plan& plan,
                      std::span<const std::uint64_t> sequences, const Turn& turn) const {
  Located located = members_[number].made->locate(plan, sequences, turn);
  for (const auto& chunk : located.chunks) {
    if (is_usable(number, *chunk, chunk->num_sequences, {})) continue;
    for (auto& sequence : located.sequences) sequence.chunk = nullptr;
  }
  return located;
}

Located Members::locate_in_memory(std::size_t number, const Plan& plan) const {
  const auto& chunk = resident_[number];
  Located located;
  located.chunks.push_back(chunk);
  located.sequences.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share)
    located.sequences.push_back({chunk.get(), members_[number].number_of(planned)});
  return located;
}

Located Members::fetch(std::size_t number, std::span<const std::uint64_t> sequences,
                       const Turn& turn) {
  Located located;
  if (sequences.empty()) return located;
  if (members_[number].in_turns) turn.wait();
  const WorkClock clock;
  std::shared_ptr<const Chunk> made = members_[number].deserializer->fetch(sequences);
  {
    const std::scoped_lock lock(mutex_);
    fetch_ += clock.elapsed();
  }
  if (!is_usable(number, *made, sequences.size(), {})) made = nullptr;
  located.sequences.reserve(sequences.size());
  for (std::uint64_t j = 0; j < sequences.size(); ++j)
    located.sequences.push_back({made.get(), j});
  if (made) located.chunks.push_back(std::move(made));
  return located;
}

Located Members::locate_in_chunks(std::size_t number, std::span<const std::uint64_t> sequences,
                                  const Turn& turn) {
  const Starts& starts = members_[number].chunks;
  ChunkCache& cache = *caches_[number];
  std::vector<std::uint64_t> chunk_of(sequences.size());
  std::vector<std::uint64_t> wanted;  // chunks, as they are first needed
  std::map<std::uint64_t, const Chunk*> loaded;
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    chunk_of[j] = starts.last_at_or_before(sequences[j]);
    if (loaded.emplace(chunk_of[j], nullptr).second) wanted.push_back(chunk_of[j]);
  }
  cache.load_ahead(wanted);
  Located located;
  for (const std::uint64_t chunk : wanted) {
    const Place place{.chunk = members_[number].parts.chunk_of(chunk)};
    try {
      std::shared_ptr<const Chunk> found = cache.get(chunk, turn);
      if (!is_usable(number, *found, starts.count(chunk), place)) continue;
      loaded[chunk] = found.get();
      located.chunks.push_back(std::move(found));
    } catch (const DataError& error) {
      throw error.within(place);
    } catch (const std::bad_alloc&) {
      throw DataError("the chunk takes more memory than is left", place);
    }
  }
  located.sequences.reserve(sequences.size());
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    located.sequences.push_back({loaded[chunk_of[j]], sequences[j] - starts[chunk_of[j]]});
  }
  return located;
}

void Members::load_ahead(std::span<const std::uint64_t> chunks) {
  if (!loads_ahead_) return;
  if (members_[0].made) {
    members_[0].made->load_ahead(chunks);
    return;
  }
  {
    const std::scoped_lock lock(mutex_);
    // A block that is entered now may be in no plan yet.
    before_ = std::exchange(ahead_, {chunks.begin(), chunks.end()});
  }
  caches_[0]->load_ahead(members_[0].parts.parts_of(chunks), false);
}

void Members::open_blocks(const Plan& plan) {
  const std::scoped_lock lock(mutex_);
  for (const auto& block : plan.blocks) {
    if (block) open_blocks_.insert(block);
  }
}

void Members::settle(std::uint64_t num_used) {
  const std::scoped_lock lock(mutex_);
  Demand demand{.num_making = num_making_, .num_used = num_used};
  for (const auto& soon : {ahead_, before_}) demand.chunks.insert(soon.begin(), soon.end());
  for (auto place = open_blocks_.begin(); place != open_blocks_.end();) {
    if (const std::shared_ptr<const Block> block = place->lock()) {
      demand.chunks.insert(block->chunks().begin(), block->chunks().end());
      const bool given = block->has_given_order();
      demand.in_given_order = demand.in_given_order || given;
      demand.wants_all = demand.wants_all || (block->chunks().empty() && !given);
      ++place;
    } else {
      place = open_blocks_.erase(place);
    }
  }
  for (const auto& cache : caches_) {
    if (cache) cache->settle(demand);
  }
}

bool Members::close(std::chrono::duration<double> limit) {
  bool ended = true;
  for (const auto& cache : caches_) {
    if (cache) ended = cache->close(limit) && ended;
  }
  for (const Member& member : members_) {
    if (member.made) ended = member.made->close(limit) && ended;
  }
  return ended;
}

bool Members::runs_here() const {
  const auto in_made = [](const Member& member) {
    return member.made && member.made->runs_here();
  };
  return std::ranges::any_of(members_, in_made) ||
         std::ranges::any_of(caches_,
                             [](const auto& cache) { return cache && cache->runs_here(); });
}

LoadStats Members::stats() const {
  LoadStats stats;
  for (const auto& cache : caches_) {
    if (!cache) continue;
    const ChunkCacheStats part = cache->stats();
    stats += {.chunks_loaded = part.chunks_loaded,
              .chunk_hits = part.hits,
              .bytes_loaded = part.bytes_loaded,
              .bytes_held = part.bytes_held,
              .load = part.load};
  }
  for (const Member& member : members_) {
    if (member.made) stats += member.made->stats();
  }
  const std::scoped_lock lock(mutex_);
  stats.load += fetch_;
  return stats;
}

}  // namespace sweephand
