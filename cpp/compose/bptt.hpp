// Rows of continued sequences, for truncated back-propagation through time: docs/layouts.md,
// section 7.
#pragma once

#include "compose/part.hpp"
#include "compose/planner.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

struct Truncation {
  std::uint32_t length = 0;  // columns of a minibatch, in [1, 2^31)
};

// A sequence in its row; columns count from the begin of the part.
struct RowEntry {
  std::uint32_t place;  // in the part
  std::uint64_t begin;
  std::uint64_t end;
};

// One part of a sweep, dealt to rows. A minibatch is a step: `length` columns of every row.
class BpttPart {
 public:
  // REQUIRES: length >= 1, num_rows >= 1
  BpttPart(Part part, std::uint32_t length, std::uint64_t num_rows);

  const Part& part() const noexcept { return part_; }
  std::uint64_t num_rows() const noexcept { return num_rows_; }
  std::uint64_t time() const noexcept { return time_; }
  bool done() const noexcept { return time_ == part_.end; }

  // Goes to the first step that begins at or after `time`.
  void seek(std::uint64_t time);

  // Goes on by one step. REQUIRES: !done()
  void advance();

  // The first column of this step.
  std::uint64_t column() const noexcept { return step_ * length_; }

  // The entries in the columns of this step. REQUIRES: row < num_rows()
  std::span<const RowEntry> row(std::uint64_t row) const noexcept;

  // Adds the blocks that this step needs or a step before it needed and a later one will.
  void open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
    blocks_.open_at(step_, blocks);
  }

  // Nominal time at which the sequence at a place begins.
  std::uint64_t find(std::uint32_t place) const;

 private:
  void deal();
  std::uint64_t filled(std::size_t row) const noexcept;
  std::uint64_t time_of(std::uint64_t step) const noexcept;

  Part part_;
  std::uint64_t length_;
  std::uint64_t num_rows_;
  std::vector<std::vector<RowEntry>> rows_;  // without those that get nothing at all
  BlockUses blocks_;                         // by step
  std::uint64_t step_ = 0;
  std::uint64_t time_;
};

// The number of rows, max(1, m div length), is settled where a part begins.
class BpttPlanner final : public Planner {
 public:
  // Throws std::invalid_argument for a length outside [1, 2^31).
  BpttPlanner(std::shared_ptr<const Timeline> timeline, Truncation truncation,
              std::uint64_t limit = kNoLimit);

  void seek(std::uint64_t time) override;
  void resume(const Position& position) override;
  std::uint64_t time() const override { return open_ ? open_->time() : sought_; }
  Plan next(const Request& request) override;
  std::uint64_t find(std::uint64_t sequence, std::uint64_t sweep,
                     std::uint64_t num_samples) const override;
  std::vector<std::uint64_t> sequences_in(std::uint64_t start, std::uint64_t stop,
                                          std::uint64_t num_samples) const override;
  std::uint64_t boundary(std::uint64_t time) const override;

 private:
  std::uint64_t rows_of(std::uint64_t num_samples) const;
  void open(Part part, std::uint64_t num_rows);
  void add_row(std::uint64_t row, const Request& request, PieceCounter& counter,
               Plan& plan) const;

  std::shared_ptr<const Timeline> timeline_;
  std::uint32_t length_;
  std::uint64_t limit_;
  PartReader reader_;
  std::uint64_t sought_ = 0;  // where to go when nothing is open
  std::unique_ptr<BpttPart> open_;
};

}  // namespace sweephand
