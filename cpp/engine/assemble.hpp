// Carries out a plan: reads the sequences of a share and lays them into buffers.
#pragma once

#include "base/error.hpp"
#include "engine/batch.hpp"
#include "engine/members.hpp"
#include "engine/runs.hpp"
#include "run/thread_group.hpp"
#include "run/work_time.hpp"

#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sweephand {

struct AssembleStats : LoadStats {
  std::uint64_t bytes_assembled = 0;
  WorkTime write;  // into the buffers of minibatches
};

class Assembler {
 public:
  // See Members. `report` also gets the errors of sequences that cannot be delivered.
  Assembler(std::vector<Member> members, std::vector<StreamSpec> streams,
            const AssembleOptions& options, bool load_ahead, std::uint64_t led_by,
            Report report);

  // Safe for several threads. Throws DataError with its place when the data are wrong: whatever
  // a deserializer says, nothing is copied that the plan does not know. Sequences that a
  // deserializer skips as damaged, or that were reported, are left out of the plan's share.
  std::shared_ptr<const Batch> assemble(Plan plan, const Turn& turn);

  Members& members() noexcept { return members_; }
  const Members& members() const noexcept { return members_; }

  // All data are in memory: a minibatch takes no longer than copying it.
  bool never_waits() const noexcept { return !reads_as_written_ && members_.all_resident(); }

  // Frees memory that earlier minibatches left.
  void shrink() noexcept { pool_.shrink(); }

  AssembleStats stats() const;

 private:
  std::shared_ptr<Batch> write_deliverable(Plan& plan, std::vector<std::vector<Run>>& runs);
  std::shared_ptr<Batch> write(const Plan& plan, const std::vector<std::vector<Run>>& runs);
  StreamBatch write_stream_of(std::size_t number, const Plan& plan,
                              const std::vector<Run>& runs);

  Members members_;
  std::vector<StreamSpec> streams_;
  AssembleOptions options_;
  Report report_;
  BufferPool pool_;
  std::vector<const Column*> tables_;  // per stream: what write_rows copies from; or null
  bool reads_as_written_ = false;      // sequences are read from files where they are copied
  mutable std::mutex mutex_;           // guards all below
  std::uint64_t bytes_assembled_ = 0;
  WorkTime write_;
};

}  // namespace sweephand
