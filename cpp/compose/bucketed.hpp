// Minibatches of one bucket each: docs/layouts.md, section 6.
#pragma once

#include "compose/part.hpp"
#include "compose/planner.hpp"
#include "compose/share.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

struct Bucketing {
  std::vector<std::uint32_t>
      boundaries;                   // ascending; a size belongs to the first that holds it
  std::uint64_t num_sequences = 0;  // of a minibatch; 0: as many as its samples allow
};

// One part of a sweep, sorted into buckets. A place in it is how many sequences of each bucket
// are delivered: those come first in the order of the timeline.
class BucketedPart {
 public:
  // Throws std::invalid_argument naming the first sequence that no boundary holds. The
  // boundaries are borrowed.
  BucketedPart(Part part, const Bucketing& bucketing, const Timeline& timeline);

  const Part& part() const noexcept { return part_; }
  std::uint64_t time() const noexcept { return time_; }
  bool done() const noexcept { return time_ == part_.end; }
  std::span<const std::uint64_t> delivered() const noexcept { return delivered_; }

  // Goes to a place in the part. Throws std::invalid_argument if it is none.
  void resume(const Position& position);

  // A minibatch: which bucket, and its next sequences by their places in the part.
  struct Draw {
    std::size_t bucket;
    std::span<const std::uint32_t> members;
  };
  // Takes the next minibatch. Linear in buckets and sequences taken. REQUIRES: !done()
  Draw draw(std::uint64_t num_samples);

 private:
  std::uint64_t size_of_minibatch(std::size_t bucket, std::uint64_t num_samples) const;
  std::size_t choose(std::span<const std::uint64_t> weights) const;
  std::size_t first_complete(std::span<const std::uint64_t> weights,
                             std::uint64_t num_samples) const;
  std::span<const std::uint32_t> left(std::size_t bucket) const {
    return std::span(members_[bucket]).subspan(delivered_[bucket]);
  }

  Part part_;
  const Bucketing& bucketing_;
  bool in_order_;  // minibatches come as they are complete; else buckets are drawn
  std::uint64_t key_;
  std::uint64_t time_;
  std::vector<std::vector<std::uint32_t>> members_;  // of each bucket, by place in the part
  std::vector<std::uint64_t> delivered_;             // of each bucket, how many
};

class BucketedPlanner final : public Planner {
 public:
  // Throws std::invalid_argument when boundaries do not ascend, there is none, or one is 0.
  BucketedPlanner(std::shared_ptr<const Timeline> timeline, Bucketing bucketing,
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
  void open(Part part);
  void go_to_sought(std::uint64_t num_samples);
  Sharing sharing_of(const Request& request) const;

  std::shared_ptr<const Timeline> timeline_;
  Bucketing bucketing_;
  std::uint64_t limit_;
  PartReader reader_;
  std::uint64_t sought_ = 0;  // where to go when nothing is open
  std::unique_ptr<BucketedPart> open_;
};

}  // namespace sweephand
