// The deserializers that a source joins, and the places of a plan's sequences in them.
#pragma once

#include "base/error.hpp"
#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "engine/runs.hpp"
#include "index/counts.hpp"
#include "read/chunk_cache.hpp"
#include "read/deserializer.hpp"
#include "run/thread_group.hpp"
#include "run/work_time.hpp"

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <span>
#include <vector>

namespace sweephand {

// Time and bytes of loading.
struct LoadStats {
  std::uint64_t chunks_loaded = 0;
  std::uint64_t chunk_hits = 0;
  std::uint64_t bytes_loaded = 0;
  std::uint64_t bytes_held = 0;  // by chunks that are kept for later minibatches
  WorkTime load;                 // of chunks, or of the sequences of a minibatch

  LoadStats& operator+=(const LoadStats& other) noexcept {
    chunks_loaded += other.chunks_loaded;
    chunk_hits += other.chunk_hits;
    bytes_loaded += other.bytes_loaded;
    bytes_held += other.bytes_held;
    load += other.load;
    return *this;
  }
};

// Safe for several threads.
class MadeSequences {
 public:
  MadeSequences() = default;
  MadeSequences(const MadeSequences&) = delete;
  MadeSequences& operator=(const MadeSequences&) = delete;
  virtual ~MadeSequences() = default;

  virtual std::uint64_t num_sequences() const noexcept = 0;

  // All are in memory.
  virtual bool in_memory() const noexcept { return false; }

  // The wanted sequences of a plan's share. `numbers` are their numbers here.
  virtual Located locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                         const Turn& turn) = 0;

  // As those of Members.
  virtual bool keeps_chunks() const noexcept = 0;
  virtual bool loads_ahead() const noexcept = 0;
  virtual void load_ahead(std::span<const std::uint64_t> chunks) = 0;
  virtual bool close(std::chrono::duration<double> limit) = 0;
  virtual bool runs_here() const = 0;
  virtual LoadStats stats() const = 0;
};

// One of the deserializers that a source joins.
struct Member {
  std::shared_ptr<Deserializer> deserializer;  // null if the sequences are made
  std::shared_ptr<MadeSequences> made;         // of others; or null
  Starts chunks;                               // of this member, as they are stored
  // Its number of the sequence that the first member calls s; empty: the same number.
  std::vector<std::uint64_t> joined;
  ChunkParts parts;                // what `chunks` are of those of the corpus
  std::uint32_t load_threads = 1;  // that load its chunks ahead
  std::uint64_t open_chunks = 1;   // at a time, in an order that the corpus gives
  bool in_turns = false;           // one lock guards its loads: minibatches take turns

  std::uint64_t number_of(const PlannedSequence& planned) const {
    return joined.empty() ? planned.sequence : joined[planned.sequence];
  }
};

// Loads chunks, and keeps those that are needed again. Thread-safe.
class Members {
 public:
  // A minibatch in the making: its chunks are kept meanwhile.
  class Making {
   public:
    Making(Members& members, const Plan& plan);
    Making(const Making&) = delete;
    Making& operator=(const Making&) = delete;
    ~Making() { --members_.num_making_; }

   private:
    Members& members_;
  };

  // `load_ahead`: chunks are loaded before they are needed, by as many threads as each member
  // says. `led_by`: the chunks of a corpus that these are joined to; 0: the first of them
  // leads. `report` gets the errors of chunks that hold other sequences than planned. Throws
  // std::invalid_argument when members and streams do not fit.
  Members(std::vector<Member> members, std::span<const StreamSpec> streams, bool load_ahead,
          std::uint64_t led_by, Report report);

  std::size_t size() const noexcept { return members_.size(); }

  // The whole corpus of a member that is in memory; else null.
  const std::shared_ptr<const Chunk>& resident(std::size_t number) const {
    return resident_.at(number);
  }

  // See Member.
  const std::vector<std::uint64_t>& joined(std::size_t number) const {
    return members_[number].joined;
  }
  std::uint64_t number_of(std::size_t number, const PlannedSequence& planned) const {
    return members_[number].number_of(planned);
  }

  // All are in memory.
  bool all_resident() const noexcept;

  // The part of one member in a share.
  Located locate(std::size_t number, const Plan& plan, const Turn& turn);

  // True if chunks are kept as long as their blocks are open in plans.
  bool keeps_chunks() const noexcept { return any_cached_; }

  // Releases chunks that are not wanted any more. `num_used`: chunks of the first member, by a
  // minibatch.
  void settle(std::uint64_t num_used);

  // True if load_ahead has an effect.
  bool loads_ahead() const noexcept { return loads_ahead_; }

  // Has chunks of the corpus loaded that no minibatch wants yet, and keeps those until the
  // next call.
  void load_ahead(std::span<const std::uint64_t> chunks);

  // Waits so long for each of the threads that load ahead to end, and returns whether they
  // have, but for the caller itself.
  bool close(std::chrono::duration<double> limit);

  // The caller is one of those threads.
  bool runs_here() const;

  LoadStats stats() const;

 private:
  void open(std::size_t number, bool load_ahead, std::uint64_t led_by);
  void open_blocks(const Plan& plan);
  Located make(std::size_t number, const Plan& plan, std::span<const std::uint64_t> sequences,
               const Turn& turn) const;
  Located locate_in_memory(std::size_t number, const Plan& plan) const;
  Located fetch(std::size_t number, std::span<const std::uint64_t> sequences, const Turn& turn);
  Located locate_in_chunks(std::size_t number, std::span<const std::uint64_t> sequences,
                           const Turn& turn);
  bool is_usable(std::size_t number, const Chunk& chunk, std::uint64_t num_sequences,
                 const Place& place) const;

  std::vector<Member> members_;
  std::vector<StreamSpec> streams_;
  Report report_;
  std::vector<std::shared_ptr<const Chunk>> resident_;  // per member; null if it is not
  std::vector<std::unique_ptr<ChunkCache>> caches_;     // per member; null if it has no chunks
  bool any_cached_ = false;
  bool loads_ahead_ = false;
  std::atomic<std::uint64_t> num_making_ = 0;  // minibatches
  mutable std::mutex mutex_;                   // guards all below
  // In a lane of the planner, or in a plan that is being carried out.
  std::set<std::weak_ptr<const Block>, std::owner_less<>> open_blocks_;
  std::vector<std::uint64_t> ahead_;   // chunks of the corpus that are wanted soon
  std::vector<std::uint64_t> before_;  // what that was before
  WorkTime fetch_;
};

}  // namespace sweephand
