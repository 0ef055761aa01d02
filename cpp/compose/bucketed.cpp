#include "compose/bucketed.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kBucketDraw = 4;  // the purpose of a key: docs/layouts.md, section 6
constexpr std::uint64_t kBucketPartSequences = std::uint64_t{1} << 17;

// The number of parts: each has about kBucketPartSequences, and no more chunks than the window.
std::uint64_t bucketed_parts(const Timeline& timeline) {
  const SweepExtent sweep = timeline.extent();
  const std::uint64_t by_sequences = sweep.sequences / kBucketPartSequences;
  const std::uint64_t by_window =
      timeline.settings().randomize ? sweep.blocks / timeline.settings().num_lanes : 0;
  return std::max({std::uint64_t{1}, by_sequences, by_window});
}

// The part that holds a sample of nominal time, without a limit if it lies beyond that.
Part part_holding(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
                  std::uint64_t time) {
  return PartReader(timeline, bucketed_parts(*timeline), time < limit ? limit : kNoLimit)
      .at(time);
}

void check(const Bucketing& bucketing) {
  const std::vector<std::uint32_t>& boundaries = bucketing.boundaries;
  if (boundaries.empty()) throw std::invalid_argument("boundaries must not be empty");
  if (boundaries[0] == 0) throw std::invalid_argument("boundaries must be positive, got 0");
  for (std::size_t b = 1; b < boundaries.size(); ++b) {
    if (boundaries[b - 1] < boundaries[b]) continue;
    throw std::invalid_argument("boundaries must ascend, got " +
                                std::to_string(boundaries[b - 1]) + " before " +
                                std::to_string(boundaries[b]));
  }
}

}  // namespace

BucketedPart::BucketedPart(Part part, const Bucketing& bucketing, const Timeline& timeline)
    : part_(std::move(part)),
      bucketing_(bucketing),
      // Drawn buckets would let the long and the short sequences of a corpus drift apart, by
      // sweeps if these are short compared with the part.
      in_order_(!timeline.settings().randomize || !timeline.first_sequences().empty()),
      key_(derive_key(
          {kOrderVersion, timeline.settings().seed, kBucketDraw, part_.sweep, part_.number})),
      time_(part_.begin),
      members_(bucketing.boundaries.size()),
      delivered_(bucketing.boundaries.size()) {
  const std::vector<std::uint32_t>& boundaries = bucketing.boundaries;
  for (std::uint32_t place = 0; place < part_.sequences.size(); ++place) {
    const PlannedSequence& planned = part_.sequences[place];
    const auto boundary = std::ranges::lower_bound(boundaries, planned.size);
    if (boundary == boundaries.end()) {
      throw std::invalid_argument("sequence " + std::to_string(planned.sequence) + " has " +
                                  std::to_string(planned.size) +
                                  " samples, more than the last boundary, " +
                                  std::to_string(boundaries.back()));
    }
    members_[static_cast<std::size_t>(boundary - boundaries.begin())].push_back(place);
  }
}

void BucketedPart::resume(const Position& position) {
  const std::vector<std::uint64_t>& delivered = position.progress;
  bool fits = delivered.size() == members_.size();
  std::uint64_t reached = part_.begin;
  for (std::size_t b = 0; fits && b < members_.size(); ++b) {
    fits = delivered[b] <= members_[b].size();
    for (std::uint64_t i = 0; fits && i < delivered[b]; ++i) {
      reached += part_.sequences[members_[b][i]].size;
    }
  }
  if (!fits || reached != position.time) {
    throw std::invalid_argument("no minibatch ends at nominal time " +
                                std::to_string(position.time) +
                                " with the progress that is given");
  }
  delivered_ = delivered;
  time_ = position.time;
}

std::uint64_t BucketedPart::size_of_minibatch(std::size_t bucket,
                                              std::uint64_t num_samples) const {
  if (bucketing_.num_sequences != 0) return bucketing_.num_sequences;
  return std::max<std::uint64_t>(1, num_samples / bucketing_.boundaries[bucket]);
}

// A bucket by chance, in proportion to the weights.
std::size_t BucketedPart::choose(std::span<const std::uint64_t> weights) const {
  const std::uint64_t total = std::accumulate(weights.begin(), weights.end(), std::uint64_t{0});
  std::uint64_t drawn = scale(mix64(key_ + kGolden * (time_ - part_.begin)), total);
  std::size_t bucket = 0;
  for (; drawn >= weights[bucket]; ++bucket) drawn -= weights[bucket];
  return bucket;
}

// The bucket with a weight whose next minibatch is the first to be complete in the order of the
// timeline.
std::size_t BucketedPart::first_complete(std::span<const std::uint64_t> weights,
                                         std::uint64_t num_samples) const {
  std::size_t found = 0;
  std::uint64_t earliest = part_.sequences.size();
  for (std::size_t b = 0; b < weights.size(); ++b) {
    if (weights[b] == 0) continue;
    const std::span members = left(b);
    const std::uint64_t last =
        members[std::min<std::uint64_t>(members.size(), size_of_minibatch(b, num_samples)) - 1];
    if (last < earliest) {
      found = b;
      earliest = last;
    }
  }
  return found;
}

BucketedPart::Draw BucketedPart::draw(std::uint64_t num_samples) {
  std::vector<std::uint64_t> weights(members_.size());  // full minibatches that are left
  for (std::size_t b = 0; b < weights.size(); ++b) {
    weights[b] = left(b).size() / size_of_minibatch(b, num_samples);
  }
  if (std::ranges::all_of(weights, [](auto weight) { return weight == 0; })) {
    for (std::size_t b = 0; b < weights.size(); ++b) weights[b] = left(b).empty() ? 0 : 1;
  }
  const std::size_t bucket = in_order_ ? first_complete(weights, num_samples) : choose(weights);
  const std::span members = left(bucket);
  const std::span taken = members.first(
      std::min<std::uint64_t>(members.size(), size_of_minibatch(bucket, num_samples)));
  delivered_[bucket] += taken.size();
  for (const std::uint32_t place : taken) time_ += part_.sequences[place].size;
  return {.bucket = bucket, .members = taken};
}

BucketedPlanner::BucketedPlanner(std::shared_ptr<const Timeline> timeline, Bucketing bucketing,
                                 std::uint64_t limit)
    : timeline_(std::move(timeline)),
      bucketing_(std::move(bucketing)),
      limit_(limit),
      reader_(timeline_, bucketed_parts(*timeline_), limit_) {
  check(bucketing_);
}

void BucketedPlanner::open(Part part) {
  open_ = std::make_unique<BucketedPart>(std::move(part), bucketing_, *timeline_);
}

void BucketedPlanner::seek(std::uint64_t time) {
  open_.reset();
  sought_ = time < limit_ ? time : reader_.at(limit_).end;
}

void BucketedPlanner::resume(const Position& position) {
  seek(position.time);
  if (position.progress.empty()) return;
  open(reader_.at(position.time));
  try {
    open_->resume(position);
  } catch (const std::invalid_argument&) {
    open_.reset();
    throw;
  }
}

// The first minibatch at or after sought_, if all minibatches of its part were of this size.
void BucketedPlanner::go_to_sought(std::uint64_t num_samples) {
  open(reader_.at(sought_));
  while (!open_->done() && open_->time() < sought_) open_->draw(num_samples);
}

Sharing BucketedPlanner::sharing_of(const Request& request) const {
  if (request.balance) return Sharing::kDealCosts;
  return timeline_->settings().randomize ? Sharing::kEvenCounts : Sharing::kDeal;
}

Plan BucketedPlanner::next(const Request& request) {
  check(request);
  if (!open_) go_to_sought(request.num_samples);
  if (open_->done() && time() < limit_) open(reader_.next());
  Plan plan{.nominal_time = time(),
            .sweep = open_->part().sweep,
            .next = {.time = time()},
            .end_of_data = open_->done()};
  if (plan.end_of_data) return plan;
  const BucketedPart::Draw draw = open_->draw(request.num_samples);
  const Part& part = open_->part();
  std::vector<PlannedSequence> minibatch;
  for (const std::uint32_t place : draw.members) minibatch.push_back(part.sequences[place]);
  plan.next.time = time();
  plan.num_samples = plan.next.time - plan.nominal_time;
  plan.num_sequences = minibatch.size();
  plan.counted =
      count_sequences(minibatch, request.bans, timeline_->corpus().masks.get(), plan);
  plan.row_length = bucketing_.boundaries[draw.bucket];
  plan.blocks = part.blocks;
  if (open_->done()) {
    plan.sweeps_ended = part.ends_sweep && timeline_->tells_sweeps() ? 1 : 0;
  } else {
    plan.next.progress.assign(open_->delivered().begin(), open_->delivered().end());
  }
  give_share(minibatch, rule_of(*timeline_, sharing_of(request), request, plan), request, plan);
  plan.num_rows = static_cast<std::uint32_t>(plan.share.size());
  return plan;
}

std::uint64_t BucketedPlanner::find(std::uint64_t sequence, std::uint64_t sweep,
                                    std::uint64_t num_samples) const {
  const std::uint64_t time = timeline_->find(sequence, sweep);
  BucketedPart open(part_holding(timeline_, limit_, time), bucketing_, *timeline_);
  const std::uint32_t wanted = open.part().place_of(sequence, timeline_->sweep_mark(sweep));
  while (true) {
    std::uint64_t begin = open.time();
    for (const std::uint32_t place : open.draw(num_samples).members) {
      if (place == wanted) return begin;
      begin += open.part().sequences[place].size;
    }
  }
}

std::vector<std::uint64_t> BucketedPlanner::sequences_in(std::uint64_t start,
                                                         std::uint64_t stop,
                                                         std::uint64_t num_samples) const {
  BucketedPlanner planner(timeline_, bucketing_, limit_);
  planner.seek(planner.reader_.at(std::min(start, limit_)).begin);
  return plan_sequences_in(planner, start, stop, num_samples);
}

std::uint64_t BucketedPlanner::boundary(std::uint64_t time) const {
  return PartReader(timeline_, bucketed_parts(*timeline_), kNoLimit).boundary(time);
}

}  // namespace sweephand
