// What a source joins, and the places of a plan's sequences in it.
#pragma once

#include "base/error.hpp"
#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "engine/runs.hpp"
#include "index/counts.hpp"
#include "read/chunk_cache.hpp"
#include "read/deserializer.hpp"
#include "run/thread_group.hpp"

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

// The sequences of one member: of a deserializer, or made of those of others. Safe for several
// threads.
class Sequences {
 public:
  Sequences() = default;
  Sequences(const Sequences&) = delete;
  Sequences& operator=(const Sequences&) = delete;
  virtual ~Sequences() = default;

  virtual std::uint64_t num_sequences() const noexcept = 0;

  // The wanted sequences of a plan's share. `numbers` are their numbers here.
  virtual Located locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                         const Turn& turn) = 0;

  // The chunk that holds all of them, if they are in memory; else null.
  virtual std::shared_ptr<const Chunk> resident() const noexcept { return nullptr; }
  virtual bool in_memory() const noexcept { return resident() != nullptr; }

  // As those of Members.
  virtual bool keeps_chunks() const noexcept { return false; }
  virtual bool loads_ahead() const noexcept { return false; }
  virtual void load_ahead(std::span<const std::uint64_t> /*chunks*/) {}
  virtual void settle(const Demand& /*demand*/) {}
  virtual bool close(std::chrono::duration<double> /*limit*/) { return true; }
  virtual bool runs_here() const { return false; }
  virtual LoadStats stats() const { return {}; }
};

// One of the deserializers that a source joins.
struct Member {
  std::shared_ptr<Deserializer> deserializer;  // null if the sequences are made
  std::shared_ptr<Sequences> made;             // of others; or null
  Starts chunks;                               // of this member, as they are stored
  // Its number of the sequence that the first member calls s; empty: the same number.
  std::vector<std::uint64_t> joined;
  ChunkParts parts;                // what `chunks` are of those of the corpus
  std::uint32_t load_threads = 1;  // that load its chunks ahead
  std::uint64_t open_chunks = 1;   // at a time, in an order that the corpus gives
  bool in_turns = false;           // one lock guards its loads: minibatches take turns
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
  std::shared_ptr<const Chunk> resident(std::size_t number) const {
    return members_.at(number).sequences->resident();
  }

  // See Member.
  const std::vector<std::uint64_t>& joined(std::size_t number) const {
    return members_[number].joined;
  }
  std::uint64_t number_of(std::size_t number, const PlannedSequence& planned) const {
    const auto& joined = members_[number].joined;
    return joined.empty() ? planned.sequence : joined[planned.sequence];
  }

  // All are in memory.
  bool all_resident() const noexcept;

  // The part of one member in a share. Chunks that hold other sequences than planned, or other
  // streams, are reported and left out.
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
  struct Opened {
    std::shared_ptr<Sequences> sequences;
    std::vector<std::uint64_t> joined;
  };

  void open(Member member, bool load_ahead, std::uint64_t led_by);
  bool is_usable(std::size_t number, const LocatedChunk& located) const;

  std::vector<Opened> members_;
  std::vector<StreamSpec> streams_;
  Report report_;
  std::uint64_t first_chunks_ = 0;  // the chunks of the corpus
  bool any_cached_ = false;
  bool loads_ahead_ = false;
  std::atomic<std::uint64_t> num_making_ = 0;  // minibatches
  mutable std::mutex mutex_;                   // guards all below
  // In a lane of the planner, or in a plan that is being carried out.
  std::set<std::weak_ptr<const Block>, std::owner_less<>> open_blocks_;
  std::vector<std::uint64_t> ahead_;   // chunks of the corpus that are wanted soon
  std::vector<std::uint64_t> before_;  // what that was before
};

}  // namespace sweephand
