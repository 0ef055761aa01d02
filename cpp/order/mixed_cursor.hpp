// Walks along a mixture: the sequences of its corpora, merged in the order of their keys.
#pragma once

#include "order/key_tree.hpp"
#include "order/mixed_timeline.hpp"
#include "order/sweep_cursor.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

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
  std::size_t wanted_ =
      64;  // to be merged at a time: few at first, as who seeks may want no more
};

}  // namespace sweephand
