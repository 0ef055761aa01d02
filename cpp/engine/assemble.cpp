#include "engine/assemble.hpp"

#include "base/error.hpp"
#include "engine/direct_writer.hpp"
#include "engine/stream_writer.hpp"

#include <algorithm>
#include <map>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// Counts itself as long as it lives.
class Counted {
 public:
  explicit Counted(std::atomic<std::uint64_t>& count) : count_(count) { ++count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;
  ~Counted() { --count_; }

 private:
  std::atomic<std::uint64_t>& count_;
};

// Whether the samples of each sequence are those that were planned, by the streams that count.
bool is_as_planned(const Batch& batch, const Plan& plan, std::span<const StreamSpec> streams) {
  std::vector<const std::int64_t*> offsets;
  std::int64_t least = 0;
  for (std::size_t number = 0; number < streams.size(); ++number) {
    if (!streams[number].counts) continue;
    const Buffer& own = batch.streams[number].sample_offsets;
    if (own) {
      offsets.push_back(own.as<std::int64_t>());
    } else {
      least = 1;  // a table has one sample per sequence
    }
  }
  if (offsets.empty() && least == 0) return true;
  bool as_planned = true;
  if (offsets.size() == 1 && least == 0) {
    const std::int64_t* const own = offsets[0];
    for (std::size_t j = 0; j < plan.share.size(); ++j)
      as_planned &= own[j + 1] - own[j] == plan.share[j].size;
    return as_planned;
  }
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    std::int64_t size = least;
    for (const std::int64_t* own : offsets) size = std::max(size, own[j + 1] - own[j]);
    as_planned &= size == plan.share[j].size;
  }
  return as_planned;
}

// Of the corpus, as the member has them.
std::uint64_t num_chunks(const Member& member) {
  const auto& starts = member.parts.starts;
  return starts.empty() ? member.chunks->num_chunks() : starts.size() - 1;
}

}  // namespace

Assembler::Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
                     const AssembleOptions& options, bool load_ahead, Report report)
    : members_(std::move(members)),
      streams_(std::move(streams)),
      options_(options),
      report_(std::move(report)) {
  for (const Member& member : members_) {
    const std::uint64_t num_sequences = member.chunks->num_sequences();
    if (std::ranges::any_of(member.joined,
                            [&](auto number) { return number >= num_sequences; }))
      throw std::invalid_argument("a joined sequence must be below " +
                                  std::to_string(num_sequences));
    const auto& starts = member.parts.starts;
    if (!starts.empty() && starts.back() != member.chunks->num_chunks())
      throw std::invalid_argument("the parts of chunks end at another number than they are");
    const Access access = member.deserializer->access();
    resident_.push_back(access == Access::kResident ? member.deserializer->load(0) : nullptr);
    const Chunk* corpus = resident_.back().get();
    const auto number = static_cast<std::uint32_t>(resident_.size() - 1);
    if (corpus != nullptr &&
        (corpus->num_sequences != num_sequences || !fits(*corpus, streams_, number)))
      throw std::invalid_argument("the corpus in memory is not what was planned");
    caches_.push_back(nullptr);
    if (access != Access::kChunks) continue;
    any_cached_ = true;
    const Retention retention{.is_first = number == 0,
                              .open_chunks = member.open_chunks,
                              .num_chunks = member.chunks->num_chunks(),
                              .first_chunks = num_chunks(members_[0]),
                              .parts = member.parts};
    const std::uint32_t num_threads = load_ahead ? member.load_threads : 0;
    if (number == 0) loads_ahead_ = num_threads > 0;
    caches_.back() = std::make_unique<ChunkCache>(member.deserializer, num_threads, retention);
  }
  lies_as_delivered_ = options_.form != Form::kRows;
  for (const StreamSpec& stream : streams_) {
    const Chunk* chunk = resident_.at(stream.member).get();
    const Column* column = chunk == nullptr ? nullptr : &chunk->columns[stream.column];
    const bool direct = column != nullptr && chunk->skipped.empty() &&
                        (options_.form == Form::kRagged || stream.single) &&
                        lies_as_delivered(*column, stream);
    columns_.push_back(column);
    is_table_.push_back(direct && column->sample_offsets == nullptr);
    lies_as_delivered_ = lies_as_delivered_ && direct;
    reads_as_written_ = reads_as_written_ || (column != nullptr && column->extents != nullptr);
  }
  never_waits_ = !reads_as_written_ && std::ranges::all_of(resident_, [](const auto& chunk) {
    return chunk != nullptr;
  });
}

// The chunk if it holds what was planned of it; else null, when it was reported.
std::shared_ptr<const Chunk> Assembler::usable(std::size_t number,
                                               std::shared_ptr<const Chunk> chunk,
                                               std::uint64_t num_sequences,
                                               const Place& place) const {
  if (chunk->num_sequences != num_sequences) {
    report_(StaleError("there are " + std::to_string(chunk->num_sequences) +
                           " sequences, but " + std::to_string(num_sequences) +
                           " were planned; the data changed since they were measured, or the "
                           "index is not theirs: build it again",
                       place));
    return nullptr;
  }
  if (fits(*chunk, streams_, static_cast<std::uint32_t>(number))) return chunk;
  report_(StaleError("the streams are not of the kinds that they had when the source was made",
                     place));
  return nullptr;
}

Located Assembler::locate(std::size_t number, const Plan& plan, const Poll& poll) {
  const Member& member = members_[number];
  const auto number_of = [&](const PlannedSequence& planned) {
    return member.joined.empty() ? planned.sequence : member.joined[planned.sequence];
  };
  Located located;
  if (const auto& chunk = resident_[number]) {
    located.chunks.push_back(chunk);
    located.sequences.reserve(plan.share.size());
    for (const PlannedSequence& planned : plan.share)
      located.sequences.push_back({chunk.get(), number_of(planned)});
    return located;
  }
  std::vector<std::uint64_t> sequences;
  sequences.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) sequences.push_back(number_of(planned));
  if (caches_[number]) return locate_in_chunks(number, sequences, poll);
  if (sequences.empty()) return located;
  const WorkClock clock;
  std::shared_ptr<const Chunk> made = member.deserializer->fetch(sequences);
  {
    const std::scoped_lock lock(mutex_);
    fetch_ += clock.elapsed();
  }
  const auto fetched = usable(number, std::move(made), sequences.size(), {});
  if (fetched) located.chunks.push_back(fetched);
  located.sequences.reserve(sequences.size());
  for (std::uint64_t j = 0; j < sequences.size(); ++j)
    located.sequences.push_back({fetched.get(), j});
  return located;
}

Located Assembler::locate_in_chunks(std::size_t number,
                                    std::span<const std::uint64_t> sequences,
                                    const Poll& poll) {
  const ChunkTable& table = *members_[number].chunks;
  ChunkCache& cache = *caches_[number];
  std::vector<std::uint64_t> chunk_of(sequences.size());
  std::vector<std::uint64_t> wanted;  // chunks, as they are first needed
  std::map<std::uint64_t, const Chunk*> loaded;
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    chunk_of[j] = table.chunk_of(sequences[j]);
    if (loaded.emplace(chunk_of[j], nullptr).second) wanted.push_back(chunk_of[j]);
  }
  cache.load_ahead(wanted);
  Located located;
  for (const std::uint64_t chunk : wanted) {
    const Place place{.chunk = members_[number].parts.chunk_of(chunk)};
    try {
      const auto found =
          usable(number, cache.get(chunk, poll), table.sequences_in(chunk), place);
      if (!found) continue;
      located.chunks.push_back(found);
      loaded[chunk] = found.get();
    } catch (const DataError& error) {
      throw error.within(place);
    }
  }
  located.sequences.reserve(sequences.size());
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    located.sequences.push_back(
        {loaded[chunk_of[j]], sequences[j] - table.first_sequence(chunk_of[j])});
  }
  return located;
}

void Assembler::load_ahead(std::span<const std::uint64_t> chunks) {
  if (!loads_ahead_) return;
  {
    const std::scoped_lock lock(mutex_);
    // A block that is entered now may be in no plan yet.
    before_ = std::exchange(ahead_, {chunks.begin(), chunks.end()});
  }
  caches_[0]->load_ahead(members_[0].parts.parts_of(chunks), false);
}

void Assembler::open_blocks(const Plan& plan) {
  const std::scoped_lock lock(mutex_);
  for (const auto& block : plan.blocks) {
    if (block) open_blocks_.insert(block);
  }
}

// `num_used`: chunks of the first member, by a minibatch.
void Assembler::settle_caches(std::uint64_t num_used) {
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

std::shared_ptr<const Batch> Assembler::assemble(Plan plan, const Poll& poll) {
  const Counted counted(num_making_);
  if (any_cached_) open_blocks(plan);
  std::shared_ptr<Batch> batch = lies_as_delivered_ ? write_directly(plan) : nullptr;
  if (batch == nullptr) batch = write_by_runs(plan, poll);
  plan.blocks.clear();
  batch->Plan::operator=(std::move(plan));
  batch->count();
  return batch;
}

// Null if something is not as it was planned: what, the way by runs tells.
std::shared_ptr<Batch> Assembler::write_directly(const Plan& plan) {
  const WorkClock clock(reads_as_written_ ? Watch::kWaits : Watch::kTotal);
  auto batch = std::make_shared<Batch>();
  batch->options = options_;
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    const StreamSpec& stream = streams_[number];
    const auto& joined = members_[stream.member].joined;
    if (is_table_[number]) {
      batch->streams.push_back(
          write_rows(*columns_[number], plan.share, joined, stream, pool_));
    } else if (auto written =
                   write_sequences(*columns_[number], plan.share, joined, stream, pool_)) {
      batch->streams.push_back(*std::move(written));
    } else {
      return nullptr;
    }
  }
  if (!is_as_planned(*batch, plan, streams_)) return nullptr;
  add_up(*batch, clock);
  return batch;
}

std::shared_ptr<Batch> Assembler::write_by_runs(Plan& plan, const Poll& poll) {
  std::vector<std::unique_ptr<Located>> located(members_.size());  // null: not needed
  std::vector<std::vector<Run>> runs(streams_.size());             // empty of tables
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    if (is_table_[number]) continue;
    const std::size_t member = streams_[number].member;
    if (!located[member])
      located[member] = std::make_unique<Located>(locate(member, plan, poll));
    runs[number] = runs_of(*located[member], plan, streams_[number]);
  }
  leave_out_unusable(runs, plan, streams_, report_);
  std::shared_ptr<Batch> batch = write_deliverable(plan, runs);
  plan.blocks.clear();
  if (any_cached_) settle_caches(located[0] ? located[0]->chunks.size() : 0);
  return batch;
}

// A sequence that turns out to be wrong only when it is copied, as a value does not fit the
// dtype, is left out too: then all is written again without it.
std::shared_ptr<Batch> Assembler::write_deliverable(Plan& plan,
                                                    std::vector<std::vector<Run>>& runs) {
  while (true) {
    try {
      return write(plan, runs);
    } catch (const DataError& error) {
      if (error.is_stale() || !error.place().sequence) throw;
      const std::size_t before = plan.share.size();
      report_(error);
      leave_out(*error.place().sequence, runs, plan);
      if (plan.share.size() == before) throw;
    }
  }
}

std::shared_ptr<Batch> Assembler::write(const Plan& plan,
                                        const std::vector<std::vector<Run>>& runs) {
  const WorkClock clock(reads_as_written_ ? Watch::kWaits : Watch::kTotal);
  auto batch = std::make_shared<Batch>();
  batch->options = options_;
  if (options_.form == Form::kRows) batch->marks = mark_rows(plan, options_.segments, pool_);
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    batch->streams.push_back(write_stream_of(number, plan, runs[number]));
    StreamBatch& written = batch->streams.back();
    if (batch->marks.mask && !streams_[number].single) {
      written.mask = batch->marks.mask;
      written.rows = plan.num_rows;
      written.width = plan.row_length;
      written.stride = plan.row_length;
    }
  }
  add_up(*batch, clock);
  return batch;
}

void Assembler::add_up(const Batch& batch, const WorkClock& clock) {
  const std::scoped_lock lock(mutex_);
  for (const StreamBatch& stream : batch.streams) bytes_assembled_ += stream.values.size();
  write_ += clock.elapsed();
}

StreamBatch Assembler::write_stream_of(std::size_t number, const Plan& plan,
                                       const std::vector<Run>& runs) {
  const StreamSpec& stream = streams_[number];
  if (is_table_[number])
    return write_rows(*columns_[number], plan.share, members_[stream.member].joined, stream,
                      pool_);
  if (stream.single) check_single(runs, stream);
  if (stream.single || (!stream.broadcast && plan.cells.empty()))
    return write_stream(runs, plan, stream, options_, pool_);
  std::vector<Run> fitted = runs;
  fit_to_plan(fitted, plan, stream);
  return write_stream(fitted, plan, stream, options_, pool_);
}

bool Assembler::close(std::chrono::duration<double> limit) {
  bool ended = true;
  for (const auto& cache : caches_) {
    if (cache) ended = cache->close(limit) && ended;
  }
  return ended;
}

bool Assembler::runs_here() const {
  return std::ranges::any_of(caches_,
                             [](const auto& cache) { return cache && cache->runs_here(); });
}

AssembleStats Assembler::stats() const {
  AssembleStats stats;
  for (const auto& cache : caches_) {
    if (!cache) continue;
    const ChunkCacheStats part = cache->stats();
    stats.chunks_loaded += part.chunks_loaded;
    stats.chunk_hits += part.hits;
    stats.bytes_loaded += part.bytes_loaded;
    stats.bytes_held += part.bytes_held;
    stats.load += part.load;
  }
  const std::scoped_lock lock(mutex_);
  stats.bytes_assembled = bytes_assembled_;
  stats.load += fetch_;
  stats.write = write_;
  return stats;
}

}  // namespace sweephand
