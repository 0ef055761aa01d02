// The places of everything on nominal time, found without reading anything before them.
#pragma once

#include "index/corpus.hpp"
#include "order/cursor.hpp"
#include "order/rate.hpp"
#include "order/settings.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// The extent of a sweep, by which it is cut into parts.
struct SweepExtent {
  std::uint64_t samples;
  std::uint64_t sequences;
  std::uint64_t blocks;
};

class SweepTimeline;

// One corpus of a timeline.
struct TimelinePart {
  std::shared_ptr<const SweepTimeline> timeline;
  Rate rate;
  std::uint64_t limit = Rate::kNever;  // own time at which it ends
  std::uint64_t first_chunk = 0;
};

class Timeline {
 public:
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;
  virtual ~Timeline() = default;

  const Corpus& corpus() const noexcept { return *corpus_; }
  const OrderSettings& settings() const noexcept { return settings_; }

  // From the beginning of a sweep to that of the next.
  virtual std::uint64_t num_samples() const noexcept = 0;

  // Stands at the first sequence of the sweep that begins at or after `time`, or at the sweep's
  // end.
  virtual std::unique_ptr<Cursor> cursor(std::uint64_t time) const = 0;

  // Nominal time at which `sequence` begins in sweep `sweep` of its corpus. REQUIRES: the
  // corpus has it
  virtual std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep) const = 0;

  // Mark that separates visits of a sequence in sweeps of its corpus, among adjacent planned
  // ones; 0 where the sweep of the plan separates them.
  virtual std::uint16_t sweep_mark(std::uint64_t /*sweep*/) const noexcept { return 0; }

  // Of a mixture the first sequence of every corpus, and the end; empty for one corpus. Valid
  // as long as the timeline.
  virtual std::span<const std::uint64_t> first_sequences() const noexcept { return {}; }

  // Whether results that reach the end of a sweep are marked.
  virtual bool tells_sweeps() const noexcept { return true; }

  virtual SweepExtent extent() const = 0;

  // The corpora, in the order of their chunks, up to nominal time `limit`. REQUIRES: the
  // timeline is held by a std::shared_ptr, limit > 0
  virtual std::vector<TimelinePart> parts(std::uint64_t limit) const = 0;

  // This timeline where a sweep has lanes of its own; null for a mixture.
  virtual std::shared_ptr<const SweepTimeline> in_lanes() const { return nullptr; }

  // Own times of the corpora: how many samples of each begin before the first sequence that
  // begins at or after nominal time `time`; of a corpus alone, `time`.
  virtual std::vector<std::uint64_t> own_times(std::uint64_t time) const { return {time}; }

  // The first key from which on shares may change so that nothing changes that begins before
  // nominal time `time`: mostly `time` itself, and a later one where no corpus had a share for
  // a while; Rate::kNever, if nothing comes from there on.
  virtual std::uint64_t free_key(std::uint64_t time) const { return time; }

  // Into how many parts a sweep is cut where about so many are wanted.
  virtual std::uint64_t num_parts(std::uint64_t wanted) const { return wanted; }

 protected:
  Timeline(std::shared_ptr<const Corpus> corpus, OrderSettings settings)
      : corpus_(std::move(corpus)), settings_(std::move(settings)) {}

  std::shared_ptr<const Corpus> corpus_;
  OrderSettings settings_;
};

// The numbers of the sequences that begin in [start, stop) of nominal time.
std::vector<std::uint64_t> sequences_between(const Timeline& timeline, std::uint64_t start,
                                             std::uint64_t stop);

}  // namespace sweephand
