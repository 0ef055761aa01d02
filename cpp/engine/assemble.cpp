#include "engine/assemble.hpp"

#include "base/error.hpp"
#include "engine/stream_writer.hpp"

#include <algorithm>
#include <unordered_set>

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

// A broadcast stream has as many samples in the minibatch as the sequence is long.
void repeat(std::vector<Run>& runs, const Plan& plan, const StreamSpec& stream) {
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (runs[j].samples != 1) {
      throw DataError("a broadcast stream has one sample per sequence, here are " +
                          std::to_string(runs[j].samples),
                      {.stream = stream.name, .sequence = runs[j].sequence});
    }
    runs[j].length = plan.share[j].size;
  }
}

// Cuts each run down to the piece that its cell holds.
void cut_to_pieces(std::vector<Run>& runs, const Plan& plan, const StreamSpec& stream) {
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (runs[j].samples != plan.cells[j].whole) {
      throw DataError("the stream has " + std::to_string(runs[j].samples) +
                          " samples where the stream that defines the size has " +
                          std::to_string(plan.cells[j].whole) +
                          "; rows need streams of equal lengths, or broadcast=True in the "
                          "StreamDef of one sample per sequence",
                      {.stream = stream.name, .sequence = runs[j].sequence});
    }
    runs[j].begin += plan.cells[j].first;
    runs[j].samples = plan.share[j].size;
    runs[j].length = plan.share[j].size;
  }
}

// The samples of the share that one stream holds.
template <class Sequences>
std::vector<Run> runs_of(const Sequences& located, const Plan& plan, const StreamSpec& stream) {
  constexpr std::size_t kAhead = 16;
  std::vector<Run> runs(located.size());
  for (std::size_t j = 0; j < located.size(); ++j) {
    if (j + kAhead < located.size()) {
      const Column& later = located[j + kAhead].chunk->columns[stream.column];
      if (later.sample_offsets != nullptr) {
        __builtin_prefetch(later.sample_offsets + located[j + kAhead].index);
      }
    }
    const Column& column = located[j].chunk->columns[stream.column];
    const auto begin = static_cast<std::uint64_t>(column.begin(located[j].index));
    const auto end = static_cast<std::uint64_t>(column.end(located[j].index));
    runs[j] = {&column, begin, plan.share[j].sequence, end - begin, end - begin};
  }
  if (stream.broadcast) {
    repeat(runs, plan, stream);
  } else if (!plan.cells.empty()) {
    cut_to_pieces(runs, plan, stream);
  }
  return runs;
}

bool is_table(const Column& column, const StreamSpec& stream, const AssembleOptions& options) {
  return options.form == Form::kRagged && column.extents == nullptr &&
         column.sample_offsets == nullptr && column.type == stream.type && !stream.variable &&
         !stream.broadcast;
}

// Takes the sequences out of the plan's share, and of what each member gives to it, that one
// of them skips. In a row those behind them move up.
template <class Shares>
void leave_out_skipped(Shares& shares, Plan& plan) {
  const auto has_skipped = [](const auto& chunk) { return !chunk->skipped.empty(); };
  if (std::none_of(shares.begin(), shares.end(), [&](const auto& share) {
        return share && std::any_of(share->chunks.begin(), share->chunks.end(), has_skipped);
      })) {
    return;
  }
  std::size_t kept = 0;
  std::uint32_t row = 0;
  std::uint32_t freed = 0;  // cells of the row
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    if (!plan.cells.empty() && plan.cells[j].row != row) {
      row = plan.cells[j].row;
      freed = 0;
    }
    const bool skipped = std::any_of(shares.begin(), shares.end(), [&](const auto& share) {
      if (!share) return false;
      const auto [chunk, index] = share->sequences[j];
      return std::binary_search(chunk->skipped.begin(), chunk->skipped.end(), index);
    });
    if (skipped) {
      freed += plan.share[j].size;
      continue;
    }
    plan.share[kept] = plan.share[j];
    if (!plan.cells.empty()) {
      plan.cells[kept] = plan.cells[j];
      plan.cells[kept].column -= freed;
    }
    for (auto& share : shares) {
      if (share) share->sequences[kept] = share->sequences[j];
    }
    ++kept;
  }
  plan.share.resize(kept);
  if (!plan.cells.empty()) plan.cells.resize(kept);
  for (auto& share : shares) {
    if (share) share->sequences.resize(kept);
  }
}

}  // namespace

Assembler::Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
                     const AssembleOptions& options, bool load_ahead)
    : members_(std::move(members)), streams_(std::move(streams)), options_(options) {
  for (const Member& member : members_) {
    const Access access = member.deserializer->access();
    resident_.push_back(access == Access::kResident ? member.deserializer->load(0) : nullptr);
    caches_.push_back(access != Access::kChunks
                          ? nullptr
                          : std::make_unique<ChunkCache>(member.deserializer,
                                                         load_ahead ? member.load_threads : 0));
    any_cached_ = any_cached_ || access == Access::kChunks;
  }
  for (const StreamSpec& stream : streams_) {
    const Chunk* chunk = resident_[stream.member].get();
    const Column* column = chunk == nullptr ? nullptr : &chunk->columns[stream.column];
    const bool table = column != nullptr && is_table(*column, stream, options_);
    tables_.push_back(table ? column : nullptr);
  }
}

Assembler::Share Assembler::locate(std::size_t number, const Plan& plan, const Poll& poll) {
  const Member& member = members_[number];
  std::vector<std::uint64_t> sequences;
  sequences.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share) {
    sequences.push_back(member.joined.empty() ? planned.sequence
                                              : member.joined[planned.sequence]);
  }
  if (caches_[number]) return locate_in_chunks(number, sequences, poll);
  Share share;
  share.sequences.reserve(sequences.size());
  if (resident_[number]) {
    const Chunk* chunk = resident_[number].get();
    for (const std::uint64_t sequence : sequences) share.sequences.push_back({chunk, sequence});
  } else if (!sequences.empty()) {
    share.chunks.push_back(member.deserializer->fetch(sequences));
    const Chunk* chunk = share.chunks.back().get();
    for (std::uint64_t j = 0; j < sequences.size(); ++j) share.sequences.push_back({chunk, j});
  }
  return share;
}

Assembler::Share Assembler::locate_in_chunks(std::size_t number,
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
  Share share;
  for (const std::uint64_t chunk : wanted) {
    try {
      share.chunks.push_back(cache.get(chunk, poll));
    } catch (const DataError& error) {
      throw error.within({.chunk = chunk});
    }
    loaded[chunk] = share.chunks.back().get();
  }
  share.sequences.reserve(sequences.size());
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    share.sequences.push_back(
        {loaded[chunk_of[j]], sequences[j] - table.first_sequence(chunk_of[j])});
  }
  return share;
}

// A chunk stays as long as a block that holds it is open: in a lane of the planner, or in a
// plan that is being carried out.
void Assembler::open_blocks(const Plan& plan) {
  const std::scoped_lock lock(mutex_);
  for (const auto& block : plan.blocks) {
    if (block) open_blocks_.insert(block);
  }
}

// `num_used`: by the first member's part of a minibatch. In an order that the corpus gives,
// those that were used last stay: as many as are open, and room for the minibatches that are
// being made, which go on to others.
void Assembler::close_chunks(std::uint64_t num_used) {
  const std::scoped_lock lock(mutex_);
  std::unordered_set<std::uint64_t> chunks;
  bool all = false;
  bool by_use = false;
  for (auto place = open_blocks_.begin(); place != open_blocks_.end();) {
    if (const std::shared_ptr<const Block> block = place->lock()) {
      chunks.insert(block->chunks().begin(), block->chunks().end());
      by_use = by_use || block->has_given_order();
      all = all || (block->chunks().empty() && !block->has_given_order());
      ++place;
    } else {
      place = open_blocks_.erase(place);
    }
  }
  if (all) return;
  if (caches_[0] && by_use) {
    caches_[0]->keep_recent(members_[0].open_chunks + num_making_ * num_used);
  } else if (caches_[0]) {
    caches_[0]->keep_only([&](std::uint64_t chunk) { return chunks.contains(chunk); });
  }
  // Blocks are made of the first member's chunks. The others may lie in any order; they get
  // twice the room that they need if they lie in the same one.
  const std::uint64_t num_chunks = members_[0].chunks->num_chunks();
  for (std::size_t number = 1; number < members_.size(); ++number) {
    if (!caches_[number]) continue;
    const std::uint64_t own = members_[number].chunks->num_chunks();
    caches_[number]->keep_recent(2 * (chunks.size() * own / num_chunks + chunks.size()));
  }
}

std::shared_ptr<const Batch> Assembler::assemble(Plan plan, const Poll& poll) {
  const Counted counted(num_making_);
  if (any_cached_) open_blocks(plan);
  std::vector<std::unique_ptr<Share>> shares(members_.size());  // null: not needed
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    const std::size_t member = streams_[number].member;
    if (tables_[number] == nullptr && !shares[member]) {
      shares[member] = std::make_unique<Share>(locate(member, plan, poll));
    }
  }
  leave_out_skipped(shares, plan);
  auto batch = std::make_shared<Batch>();
  std::uint64_t bytes = 0;
  if (options_.form == Form::kRows) batch->marks = mark_rows(plan, options_.segments, pool_);
  for (std::size_t number = 0; number < streams_.size(); ++number) {
    const StreamSpec& stream = streams_[number];
    const Member& member = members_[stream.member];
    if (tables_[number] != nullptr) {
      batch->streams.push_back(
          write_rows(*tables_[number], plan.share, member.joined, stream, pool_));
    } else {
      const std::vector<Run> runs = runs_of(shares[stream.member]->sequences, plan, stream);
      batch->streams.push_back(write_stream(runs, plan, stream, options_, pool_));
    }
    StreamBatch& written = batch->streams.back();
    bytes += written.values->capacity();
    if (batch->marks.mask) {
      written.mask = batch->marks.mask;
      written.rows = plan.num_rows;
      written.width = plan.row_length;
    }
    batch->num_cells = std::max(batch->num_cells, written.rows * written.width);
  }
  plan.blocks.clear();
  if (any_cached_) close_chunks(shares[0] ? shares[0]->chunks.size() : 0);
  batch->plan = std::move(plan);
  for (const PlannedSequence& planned : batch->plan.share) batch->share_samples += planned.size;
  if (options_.form == Form::kRagged) batch->num_cells = batch->share_samples;
  const std::scoped_lock lock(mutex_);
  bytes_assembled_ += bytes;
  return batch;
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
  }
  const std::scoped_lock lock(mutex_);
  stats.bytes_assembled = bytes_assembled_;
  return stats;
}

}  // namespace sweephand
