#include "engine/look_ahead.hpp"

#include "base/mix.hpp"

#include <algorithm>

namespace sweephand {

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

// Returns false for a time that is near the one before.
bool LookAhead::Part::look(std::uint64_t nominal_time, const Request& request) {
  const std::uint64_t time = part_.rate.due(nominal_time);
  const bool is_near = last_time_ <= time && time < next_time_;
  if (horizon_ == 0 || is_near) return false;
  last_time_ = time;
  next_time_ = time + std::max<std::uint64_t>(1, horizon_ / 4);
  chunks_.clear();
  const std::uint64_t num_samples = part_.timeline->num_samples();
  if (time >= part_.limit) return true;
  const std::uint64_t then = std::min(time + horizon_, part_.limit - 1);
  now_ = sweep(time / num_samples);
  next_ = sweep(then / num_samples);
  const std::uint32_t step = by_lanes_ ? request.num_workers : 1;
  for (std::uint32_t lane = by_lanes_ ? request.rank : 0; lane < now_->num_lanes();
       lane += step) {
    const auto block_at = [&](Sweep& sweep, std::uint64_t at) {
      const std::uint64_t place = sweep.cut(lane) + at % num_samples / sweep.num_lanes();
      return sweep.block_at(std::min(place, sweep.cut(lane + 1) - 1));
    };
    if (now_->cut(lane) == now_->cut(lane + 1)) continue;
    const auto add = [&](const Sweep& sweep, std::uint64_t block) {
      for (const std::uint64_t chunk : sweep.chunks_of(block))
        chunks_.push_back(part_.first_chunk + chunk);
    };
    const std::uint64_t open = block_at(*now_, time);
    const std::uint64_t block = block_at(*next_, then);
    if (with_open_) add(*now_, open);
    if (next_ != now_ || block != open) add(*next_, block);
  }
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
