#include "engine/look_ahead.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace sweephand {
namespace {

// Sequences of a lane, on average, whose chunks are found singly where reading begins: after
// them most chunks of its block are due.
constexpr std::uint64_t kFirst = 64;

}  // namespace

LookAhead::Part::Part(TimelinePart part, bool by_lanes, bool with_open)
    : part_(std::move(part)), by_lanes_(by_lanes), with_open_(with_open) {
  const SweepTimeline& timeline = *part_.timeline;
  const Corpus& corpus = timeline.corpus();
  const OrderSettings& settings = timeline.settings();
  if (num_blocks(corpus, settings) == 1) return;
  const auto open = static_cast<uint128>(block_chunks(corpus, settings)) *
                    (settings.randomize ? settings.num_lanes : 1);
  const uint128 window = open * timeline.num_samples() / corpus.chunks.num_chunks();
  horizon_ = static_cast<std::uint64_t>(std::min<uint128>(window, timeline.num_samples())) / 4;
}

std::shared_ptr<Sweep> LookAhead::Part::sweep(std::uint64_t number) {
  for (const auto& known : {now_, next_}) {
    if (known && known->number() == number) return known;
  }
  return std::make_shared<Sweep>(part_.timeline->sweep(number));
}

bool LookAhead::Part::reads(std::uint32_t lane, const Request& request) const {
  return !by_lanes_ || lane % request.num_workers == request.rank;
}

void LookAhead::Part::add(const Sweep& sweep, std::uint64_t block) {
  for (const std::uint64_t chunk : sweep.chunks_of(block))
    chunks_.push_back(part_.first_chunk + chunk);
}

// Adds the chunks of the first sequences of [time, then], in their order. Returns true if there
// are no later ones.
bool LookAhead::Part::add_first(std::uint64_t time, std::uint64_t then,
                                const Request& request) {
  const std::unique_ptr<Cursor> cursor = part_.timeline->cursor(time);
  std::unordered_set<std::uint64_t> known;
  std::uint64_t left = kFirst * now_->num_lanes();
  for (; left > 0 && !cursor->sweep_done() && cursor->time() <= then; --left) {
    const PlannedSequence sequence = cursor->ahead().front();
    const std::uint64_t chunk = part_.timeline->corpus().chunks.chunk_of(sequence.sequence);
    if (reads(sequence.lane, request) && known.insert(chunk).second)
      chunks_.push_back(part_.first_chunk + chunk);
    cursor->pop(1, sequence.size);
  }
  return cursor->time() >= part_.limit;
}

// Returns false for a time that is near the previous one.
bool LookAhead::Part::look(std::uint64_t nominal_time, const Request& request) {
  const std::uint64_t time = part_.rate.due(nominal_time);
  const bool is_near = last_time_ <= time && time < next_time_;
  if (horizon_ == 0 || is_near) return false;
  const bool begins = time < last_time_ || time - last_time_ > horizon_ || !now_;
  last_time_ = time;
  next_time_ = time + std::max<std::uint64_t>(1, horizon_ / 4);
  chunks_.clear();
  const std::uint64_t num_samples = part_.timeline->num_samples();
  if (time >= part_.limit) return true;
  const std::uint64_t then = std::min(time + horizon_, part_.limit - 1);
  now_ = sweep(time / num_samples);
  next_ = sweep(then / num_samples);
  if (with_open_ && begins && add_first(time, then, request)) return true;
  struct Entry {
    std::uint64_t due;  // samples of the lane before it
    Sweep* sweep;
    std::uint64_t block;
  };
  std::vector<Entry> entered;
  for (std::uint32_t lane = 0; lane < now_->num_lanes(); ++lane) {
    if (!reads(lane, request)) continue;
    const auto place_at = [&](Sweep& sweep, std::uint64_t at) {
      const std::uint64_t place = sweep.cut(lane) + at % num_samples / sweep.num_lanes();
      return std::min(place, sweep.cut(lane + 1) - 1);
    };
    if (now_->cut(lane) == now_->cut(lane + 1)) continue;
    const std::uint64_t place = place_at(*now_, time);
    const std::uint64_t open = now_->block_at(place);
    const std::uint64_t block = next_->block_at(place_at(*next_, then));
    if (with_open_) add(*now_, open);
    if (next_ == now_ && block == open) continue;
    const std::uint64_t end = std::min(now_->block_begin(open + 1), now_->cut(lane + 1));
    entered.push_back({.due = end - place, .sweep = next_.get(), .block = block});
  }
  std::ranges::stable_sort(entered, {}, &Entry::due);
  for (const Entry& entry : entered) add(*entry.sweep, entry.block);
  now_->let_go();
  next_->let_go();
  return true;
}

LookAhead::LookAhead(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
                     bool by_lanes, bool with_open) {
  for (TimelinePart& part : timeline->parts(limit))
    parts_.emplace_back(std::move(part), by_lanes, with_open);
}

std::optional<std::vector<std::uint64_t>> LookAhead::chunks_at(std::uint64_t time,
                                                               const Request& request) {
  bool any_new = false;
  for (Part& part : parts_)
    any_new = part.look(std::min(time, Rate::kMaxTime), request) || any_new;
  if (!any_new) return std::nullopt;
  std::vector<std::uint64_t> chunks;
  for (const Part& part : parts_)
    chunks.insert(chunks.end(), part.chunks().begin(), part.chunks().end());
  return chunks;
}

}  // namespace sweephand
