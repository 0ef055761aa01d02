#include "order/timeline.hpp"

#include "base/mix.hpp"
#include "order/sweep_cursor.hpp"

#include <algorithm>
#include <stdexcept>
#include <string>

namespace sweephand {
std::vector<std::uint64_t> sequences_between(const Timeline& timeline, std::uint64_t start,
                                             std::uint64_t stop) {
  std::vector<std::uint64_t> numbers;
  const std::unique_ptr<Cursor> cursor = timeline.cursor(start);
  while (cursor->time() < stop) {
    if (cursor->sweep_done()) cursor->enter_next_sweep();
    const PlannedSequence& front = cursor->ahead().front();
    numbers.push_back(front.sequence);
    cursor->pop(1, front.size);
  }
  return numbers;
}

SweepTimeline::SweepTimeline(std::shared_ptr<const Corpus> corpus,
                             const OrderSettings& settings)
    : Timeline(std::move(corpus), settings) {
  if (settings.num_lanes == 0 || settings.num_lanes > kMaxLanes) {
    throw std::invalid_argument("num_lanes must be in [1, " + std::to_string(kMaxLanes) +
                                "], got " + std::to_string(settings.num_lanes));
  }
  if (settings.window_chunks != 0 && settings.window_samples != 0) {
    throw std::invalid_argument("a window is given in chunks or in samples, not in both");
  }
  check(*corpus_);
  if (num_samples() > kMaxSamples) {
    throw std::invalid_argument("a sweep may have at most 2^47 - 1 samples, got " +
                                std::to_string(num_samples()));
  }
}

std::unique_ptr<Cursor> SweepTimeline::cursor(std::uint64_t time) const {
  return std::make_unique<SweepCursor>(sweep(time / num_samples()), time);
}

SweepExtent SweepTimeline::extent() const {
  return {.samples = num_samples(),
          .sequences = corpus_->chunks.num_sequences(),
          .blocks = num_blocks(*corpus_, settings_)};
}

std::uint64_t SweepTimeline::start_at_or_after(std::uint64_t time) const {
  if (const std::uint64_t size = corpus_->sizes->common(); size != 0)
    return checked_mul((time + size - 1) / size, size);
  return cursor(time)->time();
}

std::uint64_t SweepTimeline::find(std::uint64_t sequence, std::uint64_t sweep) const {
  Sweep list = this->sweep(sweep);
  const std::uint64_t start = list.find(sequence).start;
  // The last lane that begins at or before the start owns it; empty lanes share a cut and are
  // passed.
  std::uint32_t lane = list.num_lanes() - 1;
  while (list.cut(lane) > start) --lane;
  return checked_add(checked_mul(sweep, num_samples()),
                     list.samples_before(start - list.cut(lane), lane));
}

}  // namespace sweephand
