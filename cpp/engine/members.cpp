#include "engine/members.hpp"

#include <algorithm>
#include <map>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// The whole corpus as one chunk in memory.
class InMemory final : public Sequences {
 public:
  explicit InMemory(std::shared_ptr<const Chunk> corpus) : corpus_(std::move(corpus)) {}

  std::uint64_t num_sequences() const noexcept override { return corpus_->num_sequences; }
  std::shared_ptr<const Chunk> resident() const noexcept override { return corpus_; }

  Located locate(const Plan& /*plan*/, std::span<const std::uint64_t> numbers,
                 const Turn& /*turn*/) override {
    Located located{.chunks = {{corpus_, corpus_->num_sequences}}};
    located.sequences.reserve(numbers.size());
    for (const std::uint64_t number : numbers)
      located.sequences.push_back({corpus_.get(), number});
    return located;
  }

 private:
  std::shared_ptr<const Chunk> corpus_;
};

// The sequences of a minibatch alone are read.
class Fetched final : public Sequences {
 public:
  explicit Fetched(const Member& member)
      : deserializer_(member.deserializer),
        num_sequences_(member.chunks.total()),
        in_turns_(member.in_turns) {}

  std::uint64_t num_sequences() const noexcept override { return num_sequences_; }

  Located locate(const Plan& /*plan*/, std::span<const std::uint64_t> numbers,
                 const Turn& turn) override {
    Located located;
    if (numbers.empty()) return located;
    if (in_turns_) turn.wait();
    const WorkClock clock;
    std::shared_ptr<const Chunk> made = deserializer_->fetch(numbers);
    {
      const std::scoped_lock lock(mutex_);
      stats_.load += clock.elapsed();
    }
    located.sequences.reserve(numbers.size());
    for (std::uint64_t j = 0; j < numbers.size(); ++j)
      located.sequences.push_back({made.get(), j});
    located.chunks.push_back({std::move(made), numbers.size()});
    return located;
  }

  LoadStats stats() const override {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }

 private:
  std::shared_ptr<Deserializer> deserializer_;
  std::uint64_t num_sequences_;
  bool in_turns_;
  mutable std::mutex mutex_;  // guards all below
  LoadStats stats_;
};

// Chunks, or parts of them, that are kept as long as they are needed.
class Chunked final : public Sequences {
 public:
  Chunked(Member member, std::uint32_t num_threads, Retention retention)
      : starts_(std::move(member.chunks)),
        parts_(std::move(member.parts)),
        loads_ahead_(num_threads > 0),
        cache_(std::move(member.deserializer), num_threads, std::move(retention),
               member.in_turns) {}

  std::uint64_t num_sequences() const noexcept override { return starts_.total(); }
  bool keeps_chunks() const noexcept override { return true; }
  bool loads_ahead() const noexcept override { return loads_ahead_; }
  void load_ahead(std::span<const std::uint64_t> chunks) override {
    cache_.load_ahead(parts_.parts_of(chunks), false);
  }
  void settle(const Demand& demand) override { cache_.settle(demand); }
  bool close(std::chrono::duration<double> limit) override { return cache_.close(limit); }
  bool runs_here() const override { return cache_.runs_here(); }

  Located locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                 const Turn& turn) override;
  LoadStats stats() const override { return cache_.stats(); }

 private:
  Starts starts_;
  ChunkParts parts_;
  bool loads_ahead_;
  ChunkCache cache_;
};

Located Chunked::locate(const Plan& /*plan*/, std::span<const std::uint64_t> numbers,
                        const Turn& turn) {
  std::vector<std::uint64_t> chunk_of(numbers.size());
  std::vector<std::uint64_t> wanted;  // chunks, as they are first needed
  std::map<std::uint64_t, const Chunk*> loaded;
  for (std::size_t j = 0; j < numbers.size(); ++j) {
    chunk_of[j] = starts_.last_at_or_before(numbers[j]);
    if (loaded.emplace(chunk_of[j], nullptr).second) wanted.push_back(chunk_of[j]);
  }
  cache_.load_ahead(wanted);
  Located located;
  for (const std::uint64_t chunk : wanted) {
    const Place place{.chunk = parts_.chunk_of(chunk)};
    try {
      located.chunks.push_back({cache_.get(chunk, turn), starts_.count(chunk), place.chunk});
    } catch (const DataError& error) {
      throw error.within(place);
    } catch (const std::bad_alloc&) {
      throw DataError("the chunk takes more memory than is left", place);
    }
    loaded[chunk] = located.chunks.back().chunk.get();
  }
  located.sequences.reserve(numbers.size());
  for (std::size_t j = 0; j < numbers.size(); ++j)
    located.sequences.push_back({loaded[chunk_of[j]], numbers[j] - starts_[chunk_of[j]]});
  return located;
}

}  // namespace

Members::Making::Making(Members& members, const Plan& plan) : members_(members) {
  ++members_.num_making_;
  if (!members_.any_cached_) return;
  const std::scoped_lock lock(members_.mutex_);
  for (const auto& block : plan.blocks) {
    if (block) members_.open_blocks_.insert(block);
  }
}

Members::Members(std::vector<Member> members, std::span<const StreamSpec> streams,
                 bool load_ahead, std::uint64_t led_by, Report report)
    : streams_(streams.begin(), streams.end()), report_(std::move(report)) {
  for (Member& member : members) open(std::move(member), load_ahead, led_by);
}

void Members::open(Member member, bool load_ahead, std::uint64_t led_by) {
  const std::size_t number = members_.size();
  const auto& starts = member.parts.starts;
  const std::uint64_t num_chunks = member.chunks.num_counts();
  const std::uint64_t num_sequences =
      member.made ? member.made->num_sequences() : member.chunks.total();
  if (std::ranges::any_of(member.joined,
                          [&](auto sequence) { return sequence >= num_sequences; }))
    throw std::invalid_argument("a joined sequence must be below " +
                                std::to_string(num_sequences));
  if (!starts.empty() && starts.back() != num_chunks)
    throw std::invalid_argument("the parts of chunks end at another number than they are");
  if (number == 0)
    first_chunks_ = led_by != 0 ? led_by : starts.empty() ? num_chunks : starts.size() - 1;
  Opened opened{.sequences = member.made, .joined = std::move(member.joined)};
  if (!member.made) {
    switch (member.deserializer->access()) {
      case Access::kResident:
        opened.sequences = std::make_shared<InMemory>(member.deserializer->load(0));
        break;
      case Access::kSequences:
        opened.sequences = std::make_shared<Fetched>(member);
        break;
      case Access::kChunks:
        const std::uint32_t num_threads = load_ahead ? member.load_threads : 0;
        Retention retention{.is_first = number == 0 && led_by == 0,
                            .open_chunks = member.open_chunks,
                            .num_chunks = num_chunks,
                            .first_chunks = first_chunks_,
                            .parts = member.parts};
        opened.sequences =
            std::make_shared<Chunked>(std::move(member), num_threads, std::move(retention));
    }
  }
  const auto corpus = opened.sequences->resident();
  if (corpus != nullptr && (corpus->num_sequences != num_sequences ||
                            !fits(*corpus, streams_, static_cast<std::uint32_t>(number))))
    throw std::invalid_argument("the corpus in memory is not what was planned");
  any_cached_ = any_cached_ || opened.sequences->keeps_chunks();
  if (number == 0) loads_ahead_ = opened.sequences->loads_ahead();
  members_.push_back(std::move(opened));
}

bool Members::all_resident() const noexcept {
  return std::ranges::all_of(members_,
                             [](const Opened& one) { return one.sequences->in_memory(); });
}

// True if the chunk holds its planned sequences; otherwise it was reported.
bool Members::is_usable(std::size_t number, const LocatedChunk& located) const {
  const auto& [chunk, planned, chunk_number] = located;
  const Place place{.chunk = chunk_number};
  if (chunk->num_sequences != planned) {
    report_(StaleError("there are " + std::to_string(chunk->num_sequences) +
                           " sequences, but " + std::to_string(planned) +
                           " were planned; the data changed since they were measured, or the "
                           "index is not theirs: build it again",
                       place));
    return false;
  }
  if (fits(*chunk, streams_, static_cast<std::uint32_t>(number))) return true;
  report_(StaleError("the streams are not of the kinds that they had when the source was made",
                     place));
  return false;
}

Located Members::locate(std::size_t number, const Plan& plan, const Turn& turn) {
  std::vector<std::uint64_t> numbers;
  numbers.reserve(plan.share.size());
  for (const PlannedSequence& planned : plan.share)
    numbers.push_back(number_of(number, planned));
  Located located = members_[number].sequences->locate(plan, numbers, turn);
  std::set<const Chunk*> unusable;
  std::erase_if(located.chunks, [&](const LocatedChunk& one) {
    if (is_usable(number, one)) return false;
    unusable.insert(one.chunk.get());
    return true;
  });
  if (!unusable.empty()) {
    for (auto& sequence : located.sequences) {
      if (unusable.contains(sequence.chunk)) sequence.chunk = nullptr;
    }
  }
  return located;
}

void Members::load_ahead(std::span<const std::uint64_t> chunks) {
  if (!loads_ahead_) return;
  {
    const std::scoped_lock lock(mutex_);
    // A block that is entered now may be in no plan yet.
    before_ = std::exchange(ahead_, {chunks.begin(), chunks.end()});
  }
  members_[0].sequences->load_ahead(chunks);
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
  for (const Opened& member : members_) member.sequences->settle(demand);
}

bool Members::close(std::chrono::duration<double> limit) {
  bool ended = true;
  for (const Opened& member : members_) ended = member.sequences->close(limit) && ended;
  return ended;
}

bool Members::runs_here() const {
  return std::ranges::any_of(members_,
                             [](const Opened& one) { return one.sequences->runs_here(); });
}

LoadStats Members::stats() const {
  LoadStats stats;
  for (const Opened& member : members_) stats += member.sequences->stats();
  return stats;
}

}  // namespace sweephand
