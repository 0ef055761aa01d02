// Carries out a plan: reads the sequences of a share and lays them into buffers.
#pragma once

#include "base/error.hpp"
#include "engine/batch.hpp"
#include "engine/buffer.hpp"
#include "engine/runs.hpp"
#include "engine/stream_spec.hpp"
#include "index/chunk_table.hpp"
#include "read/chunk_cache.hpp"
#include "read/deserializer.hpp"
#include "run/work_time.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// One of the deserializers that a source joins.
struct Member {
  std::shared_ptr<Deserializer> deserializer;
  std::shared_ptr<const ChunkTable> chunks;  // of this member
  // Its number of the sequence that the first member calls s; empty: the same number.
  std::vector<std::uint64_t> joined;
  ChunkParts parts;                // what `chunks` are of those of the corpus
  std::uint32_t load_threads = 1;  // that load its chunks ahead
  std::uint64_t open_chunks = 1;   // at a time, in an order that the corpus gives
};

struct AssembleStats {
  std::uint64_t bytes_assembled = 0;
  std::uint64_t chunks_loaded = 0;
  std::uint64_t chunk_hits = 0;
  std::uint64_t bytes_loaded = 0;
  std::uint64_t bytes_held = 0;  // by chunks that are kept for later minibatches
  WorkTime load;                 // of chunks, or of the sequences of a minibatch
  WorkTime write;                // into the buffers of minibatches
};

class Assembler {
 public:
  // `load_ahead`: chunks are loaded before they are needed, by as many threads as each member
  // says. `report` is told of sequences that cannot be delivered, and of chunks that hold other
  // sequences than planned. Throws std::invalid_argument when members and streams do not fit.
  Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
            const AssembleOptions& options, bool load_ahead, Report report);

  // Safe for several threads. Throws DataError with its place when the data are wrong: whatever
  // a deserializer says, nothing is copied that the plan does not know. Sequences that a
  // deserializer skips as damaged, or that were reported, are left out of the plan's share.
  std::shared_ptr<const Batch> assemble(Plan plan, const Poll& poll);

  // Whether load_ahead does anything.
  bool loads_ahead() const noexcept { return loads_ahead_; }

  // Has chunks of the corpus loaded that no minibatch wants yet, and keeps those until it is
  // told of others.
  void load_ahead(std::span<const std::uint64_t> chunks);

  // Waits so long for each of the threads that load ahead to end, and returns whether they
  // have, but for the caller itself.
  bool close(std::chrono::duration<double> limit);

  // The caller is one of those threads.
  bool runs_here() const;

  // Chunks are kept as long as blocks that plans tell are open.
  bool keeps_chunks() const noexcept { return any_cached_; }

  // All data are in memory: a minibatch takes no longer than copying it.
  bool never_waits() const noexcept { return never_waits_; }

  AssembleStats stats() const;

 private:
  Located locate(std::size_t number, const Plan& plan, const Poll& poll);
  Located locate_in_chunks(std::size_t number, std::span<const std::uint64_t> sequences,
                           const Poll& poll);
  std::shared_ptr<const Chunk> usable(std::size_t number, std::shared_ptr<const Chunk> chunk,
                                      std::uint64_t num_sequences, const Place& place) const;
  std::shared_ptr<Batch> write_directly(const Plan& plan);
  std::shared_ptr<Batch> write_by_runs(Plan& plan, const Poll& poll);
  void add_up(const Batch& batch, const WorkClock& clock);
  std::shared_ptr<Batch> write_deliverable(Plan& plan, std::vector<std::vector<Run>>& runs);
  std::shared_ptr<Batch> write(const Plan& plan, const std::vector<std::vector<Run>>& runs);
  StreamBatch write_stream_of(std::size_t number, const Plan& plan,
                              const std::vector<Run>& runs);
  void open_blocks(const Plan& plan);
  void settle_caches(std::uint64_t num_used);

  std::vector<Member> members_;
  std::vector<StreamSpec> streams_;
  AssembleOptions options_;
  Report report_;
  BufferPool pool_;
  std::vector<std::shared_ptr<const Chunk>> resident_;  // per member; null if it is not
  std::vector<const Column*> columns_;  // per stream; null if it is not resident
  std::vector<bool> is_table_;          // per stream: write_rows is all that it takes
  bool lies_as_delivered_ = false;      // every stream lies in memory as it is delivered
  std::vector<std::unique_ptr<ChunkCache>> caches_;  // per member; null if it has no chunks
  bool any_cached_ = false;
  bool loads_ahead_ = false;
  bool never_waits_ = false;
  bool reads_as_written_ = false;  // sequences are read from files where they are copied
  std::atomic<std::uint64_t> num_making_ = 0;  // minibatches
  mutable std::mutex mutex_;
  // In a lane of the planner, or in a plan that is being carried out.
  std::set<std::weak_ptr<const Block>, std::owner_less<>> open_blocks_;
  std::vector<std::uint64_t> ahead_;   // chunks of the corpus that are wanted soon
  std::vector<std::uint64_t> before_;  // what that was before
  std::uint64_t bytes_assembled_ = 0;
  WorkTime fetch_;
  WorkTime write_;
};

}  // namespace sweephand
