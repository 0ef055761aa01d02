// The places of everything on nominal time, found without reading anything before them.
#pragma once

#include "index/corpus.hpp"
#include "order/block.hpp"
#include "order/rate.hpp"
#include "order/sweep.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// Walks along a timeline, sequence by sequence.
class Cursor {
 public:
  Cursor() = default;
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;
  virtual ~Cursor() = default;

  // A cursor at another place of the same timeline, which may share this one's knowledge.
  virtual std::unique_ptr<Cursor> at(std::uint64_t time) const = 0;

  // Nominal time of the front sequence.
  std::uint64_t time() const noexcept { return time_; }
  virtual std::uint64_t sweep() const noexcept = 0;
  virtual std::uint64_t sweep_begin() const noexcept = 0;

  // The sweep has no more sequences; time() is its end.
  virtual bool sweep_done() const noexcept = 0;

  // Goes to the first sequence of the next sweep. REQUIRES: sweep_done()
  virtual void enter_next_sweep() = 0;

  // The sequences that come next, some of those of the sweep: at least one. Valid until the
  // next call. REQUIRES: !sweep_done()
  virtual std::span<const PlannedSequence> ahead() const noexcept = 0;

  // Goes on by some of those ahead, which have `samples` samples: constant for each on average,
  // whatever the number of lanes.
  virtual void pop(std::size_t count, std::uint64_t samples) = 0;

  // Adds the current blocks of the lanes; a block may come several times. Keeping them keeps
  // their chunks open. Linear in the lanes.
  virtual void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const = 0;

  // Adds the blocks of the first of those ahead, but for lanes that have added theirs for this
  // `taker`, a number other than 0 that no other one before had.
  virtual void add_blocks(std::span<const PlannedSequence> first, std::uint32_t taker,
                          std::vector<std::shared_ptr<const Block>>& blocks) = 0;

  // The place of the block of ahead()[i] among those of the last taker. REQUIRES: it was added
  virtual std::uint32_t place_of_block(std::size_t i) const noexcept = 0;

 protected:
  std::uint64_t time_ = 0;
};

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

// The sweeps of a corpus, one after the other.
class SweepTimeline final : public Timeline,
                            public std::enable_shared_from_this<SweepTimeline> {
 public:
  // Throws std::invalid_argument for no lanes, more than kMaxLanes, two windows, more than
  // kMaxSamples samples in a sweep, or a corpus that contradicts itself.
  SweepTimeline(std::shared_ptr<const Corpus> corpus, const OrderSettings& settings);

  static constexpr std::uint32_t kMaxLanes = (1U << 16) - 1;
  static constexpr std::uint64_t kMaxSamples = (std::uint64_t{1} << 47) - 1;

  std::uint64_t num_samples() const noexcept override { return corpus_->chunks.num_samples(); }
  std::unique_ptr<Cursor> cursor(std::uint64_t time) const override;
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep) const override;
  SweepExtent extent() const override;
  std::vector<TimelinePart> parts(std::uint64_t limit) const override {
    return {{.timeline = in_lanes(), .limit = limit}};
  }
  std::shared_ptr<const SweepTimeline> in_lanes() const override { return shared_from_this(); }

  Sweep sweep(std::uint64_t number) const { return {corpus_, settings_, number}; }

  // Nominal time of the first sequence that begins at or after `time`.
  std::uint64_t start_at_or_after(std::uint64_t time) const;
};

}  // namespace sweephand
