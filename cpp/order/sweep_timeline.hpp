// The sweeps of a corpus, one after the other.
#pragma once

#include "order/sweep.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

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
