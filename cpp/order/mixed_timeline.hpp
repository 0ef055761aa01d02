// Several corpora, each on a timeline of its own, merged by weights: docs/order.md, "Mixtures".
//
//   web, weight 3    | a . . . b . . . c . ...      own time, stretched by 4/3
//   code, weight 1   | x . . . . . . . . . y ...    own time, stretched by 4
//   the mixture      | a x b c y ...                in the order of their keys
#pragma once

#include "order/sweep_timeline.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// It has one sweep, without an end, unless all corpora end.
class MixedTimeline final : public Timeline {
 public:
  static constexpr std::uint64_t kEndless = std::uint64_t{1} << 62;
  static constexpr std::uint32_t kMaxCorpora = (1U << 16) - 1;

  // `corpus` has the chunks of all, one corpus after the other. `tells_sweeps`: its end is that
  // of a sweep. Throws std::invalid_argument if the chunks differ, or there are 2^47 sequences
  // or more.
  MixedTimeline(std::shared_ptr<const Corpus> corpus, const OrderSettings& settings,
                std::vector<TimelinePart> corpora, bool tells_sweeps);

  std::uint64_t num_samples() const noexcept override { return kEndless; }
  std::unique_ptr<Cursor> cursor(std::uint64_t time) const override;

  // Throws std::invalid_argument for a sequence that never comes.
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep) const override;
  std::uint16_t sweep_mark(std::uint64_t sweep) const noexcept override {
    return static_cast<std::uint16_t>(sweep);
  }
  bool tells_sweeps() const noexcept override { return tells_sweeps_; }
  SweepExtent extent() const override { return extent_; }
  std::uint64_t num_parts(std::uint64_t wanted) const override;
  std::vector<TimelinePart> parts(std::uint64_t limit) const override;
  std::span<const std::uint64_t> first_sequences() const noexcept override {
    return first_sequences_;
  }

  std::vector<std::uint64_t> own_times(std::uint64_t time) const override;
  std::uint64_t free_key(std::uint64_t time) const override;

  // Nominal time of the sequence of a corpus that begins at its own time `own_time`, were it to
  // come; Rate::kNever. REQUIRES: one begins there
  std::uint64_t time_of(std::uint32_t number, std::uint64_t own_time) const;

 private:
  std::shared_ptr<const std::vector<TimelinePart>> corpora_;
  std::vector<std::uint64_t> first_sequences_;
  SweepExtent extent_{};
  bool tells_sweeps_;
};

// A bound of the own times of sequences of a corpus whose key is `key` or more; its end, if
// there is none.
std::uint64_t least_own_time(const TimelinePart& corpus, std::uint64_t key);

}  // namespace sweephand
