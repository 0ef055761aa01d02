// Sequences that derive from other corpora: mapped when a minibatch needs them, or of a
// mixture.
#pragma once

#include "compose/plan.hpp"
#include "engine/runs.hpp"
#include "run/thread_group.hpp"
#include "run/work_time.hpp"

#include <chrono>
#include <cstdint>
#include <span>

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

}  // namespace sweephand
