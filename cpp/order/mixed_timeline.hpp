// Several corpora, each on a timeline of its own, merged by weights: docs/order.md, "Mixtures".
//
//   web, weight 3    | a . . . b . . . c . ...      own time, stretched by 4/3
//   code, weight 1   | x . . . . . . . . . y ...    own time, stretched by 4
//   the mixture      | a x b c y ...                in the order of their keys
#pragma once

#include "base/mix.hpp"
#include "order/sweep_cursor.hpp"
#include "order/timeline.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// The least of many keys, of which one changes at a time.
//
//            3              each node holds the lesser of the two below it, so that a change
//        3       5          takes one comparison per doubling, and no branch
//      7   3   9   5
class KeyTree {
 public:
  static constexpr std::uint64_t kNever = UINT64_MAX;  // greater than all keys

  // Keys of numbers below `size`, which is 2^32 at most, all kNever.
  explicit KeyTree(std::size_t size)
      : num_leaves_(std::bit_ceil(std::max<std::size_t>(size, 1))),
        nodes_(2 * num_leaves_, ~uint128{0}) {}

  void set(std::uint32_t number, std::uint64_t key) noexcept {
    uint128 node = uint128{key} << 32 | number;
    for (std::size_t place = num_leaves_ + number; place > 1; place /= 2) {
      nodes_[place] = node;
      node = std::min(node, nodes_[place ^ 1]);
    }
    nodes_[1] = node;
  }

  // Of equal keys that of the least number.
  std::uint64_t least_key() const noexcept {
    return static_cast<std::uint64_t>(nodes_[1] >> 32);
  }
  std::uint32_t least() const noexcept { return static_cast<std::uint32_t>(nodes_[1]); }

 private:
  // One number of key and number, as of two a comparison is a branch that nothing could
  // foretell.
  std::size_t num_leaves_;
  std::vector<uint128> nodes_;  // the root is node 1
};

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

// Walks along a mixture: the sequences of its corpora, merged in the order of their keys.
class MixedCursor final : public Cursor {
 public:
  // `first_sequences`: the number in the mixture of the first one of every corpus.
  MixedCursor(std::shared_ptr<const std::vector<TimelinePart>> corpora,
              std::vector<std::uint64_t> first_sequences, std::uint64_t time);

  std::unique_ptr<Cursor> at(std::uint64_t time) const override {
    return std::make_unique<MixedCursor>(corpora_, first_sequences_, time);
  }
  std::uint64_t sweep() const noexcept override { return 0; }
  std::uint64_t sweep_begin() const noexcept override { return 0; }
  bool sweep_done() const noexcept override { return ahead_.empty(); }
  [[noreturn]] void enter_next_sweep() override;
  std::span<const PlannedSequence> ahead() const noexcept override {
    return std::span(ahead_).subspan(front_);
  }
  void pop(std::size_t count, std::uint64_t samples) override;
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const override;
  void add_blocks(std::span<const PlannedSequence> first, std::uint32_t taker,
                  std::vector<std::shared_ptr<const Block>>& blocks) override;
  std::uint32_t place_of_block(std::size_t i) const noexcept override {
    return place_of_[front_ + i];
  }

  // The place of every corpus.
  std::vector<std::uint64_t> own_times() const;

 private:
  // Data that every sequence touches are on one cache line: there may be many corpora, and
  // others were used in between.
  struct alignas(64) Own {
    const PlannedSequence* next = nullptr;  // of those ahead of the cursor: the first that is
    const PlannedSequence* end = nullptr;   // not merged, and their end
    std::uint64_t time = 0;                 // own, of that first one
    std::uint64_t limit = 0;                // of own time
    std::uint64_t even_share = 0;           // see Rate
    std::uint64_t first_sequence = 0;       // the number in the mixture
    std::unique_ptr<SweepCursor> cursor;    // null if the corpus has ended
    std::uint32_t merged = 0;               // of those ahead of the cursor
    std::uint16_t sweep = 0;                // of those that come next
  };

  void place(std::uint64_t key);
  std::uint64_t next_key(std::uint32_t number) const;
  static bool look_ahead(Own& own);
  void merge();

  std::shared_ptr<const std::vector<TimelinePart>> corpora_;
  std::vector<std::uint64_t> first_sequences_;
  std::vector<Own> own_;
  KeyTree keys_;  // of the next sequence of every corpus
  std::vector<PlannedSequence> ahead_;
  std::vector<std::uint16_t> number_of_;  // the corpus of each
  std::vector<std::uint32_t> place_of_;   // of the block of each, once it was added
  std::size_t front_ = 0;
  std::size_t wanted_ = 64;  // to be merged at a time: few at first, as a seek may need no more
};

}  // namespace sweephand
