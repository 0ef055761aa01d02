// The sweeps laid on nominal time: where everything is, without reading anything before it.
#pragma once

#include "index/corpus.hpp"
#include "order/settings.hpp"
#include "order/sweep.hpp"

#include <cstdint>
#include <memory>

namespace sweephand {

class Timeline {
 public:
  // Throws std::invalid_argument for no lanes, more than kMaxLanes, two windows, more than
  // kMaxSamples samples in a sweep, or a corpus that contradicts itself.
  Timeline(std::shared_ptr<const Corpus> corpus, const OrderSettings& settings);

  static constexpr std::uint32_t kMaxLanes = (1U << 16) - 1;
  static constexpr std::uint64_t kMaxSamples = (std::uint64_t{1} << 47) - 1;

  const Corpus& corpus() const noexcept { return *corpus_; }
  const OrderSettings& settings() const noexcept { return settings_; }
  std::uint64_t num_samples() const noexcept { return corpus_->chunks.num_samples(); }

  Sweep sweep(std::uint64_t number) const { return {corpus_, settings_, number}; }

  // Nominal time at which `sequence` begins in sweep `sweep`. REQUIRES: the corpus has it
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep) const;

 private:
  std::shared_ptr<const Corpus> corpus_;
  OrderSettings settings_;
};

}  // namespace sweephand
