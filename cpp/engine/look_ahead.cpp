#include "engine/look_ahead.hpp"

#include "base/mix.hpp"

#include <algorithm>

namespace sweephand {

LookAhead::Part::Part(std::shared_ptr<const SweepTimeline> timeline, std::uint64_t limit,
                      bool by_lanes, bool with_open)
    : timeline_(std::move(timeline)),
      limit_(limit),
      by_lanes_(by_lanes),
      with_open_(with_open) {
  const Corpus& corpus = timeline_->corpus();
  const OrderSettings& settings = timeline_->settings();
  if (num_blocks(corpus, settings) == 1) return;
  const auto open = static_cast<uint128>(block_chunks(corpus, settings)) *
                    (settings.randomize ? settings.num_lanes : 1);
  const uint128 window = open * timeline_->num_samples() / corpus.chunks.num_chunks();
  horizon_ =
      static_cast<std::uint64_t>(std::min<uint128>(window, timeline_->num_samples())) / 4;
}

std::shared_ptr<Sweep> LookAhead::Part::sweep(std::uint64_t number) {
  for (const auto& known : {now_, next_}) {
    if (known && known->number() == number) return known;
  }
  return std::make_shared<Sweep>(timeline_->sweep(number));
}

std::optional<std::vector<std::uint64_t>> LookAhead::Part::chunks_at(std::uint64_t time,
                                                                     const Request& request) {
  const bool is_near = last_time_ <= time && time < next_time_;
  if (horizon_ == 0 || is_near) return std::nullopt;
  last_time_ = time;
  next_time_ = time + std::max<std::uint64_t>(1, horizon_ / 4);
  std::vector<std::uint64_t> chunks;
  const std::uint64_t num_samples = timeline_->num_samples();
  if (time >= limit_) return chunks;
  const std::uint64_t then = std::min(time + horizon_, limit_ - 1);
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
      const std::vector<std::uint64_t> own = sweep.chunks_of(block);
      chunks.insert(chunks.end(), own.begin(), own.end());
    };
    const std::uint64_t open = block_at(*now_, time);
    const std::uint64_t block = block_at(*next_, then);
    if (with_open_) add(*now_, open);
    if (next_ != now_ || block != open) add(*next_, block);
  }
  now_->let_go();
  next_->let_go();
  return chunks;
}

LookAhead::LookAhead(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
                     bool by_lanes, bool with_open)
    : mixed_(std::dynamic_pointer_cast<const MixedTimeline>(timeline)) {
  if (mixed_ == nullptr) {
    parts_.emplace_back(std::dynamic_pointer_cast<const SweepTimeline>(timeline), limit,
                        by_lanes, with_open);
    return;
  }
  const std::uint64_t end = std::min(limit, Rate::kMaxTime);
  for (const MixedCorpus& one : mixed_->corpora()) {
    parts_.emplace_back(one.timeline, std::min(one.limit, one.rate.due(end) + 1), by_lanes,
                        with_open);
  }
  told_.resize(parts_.size());
}

std::optional<std::vector<std::uint64_t>> LookAhead::chunks_at(std::uint64_t time,
                                                               const Request& request) {
  if (mixed_ == nullptr) return parts_[0].chunks_at(time, request);
  bool any_told = false;
  for (std::size_t number = 0; number < parts_.size(); ++number) {
    const Rate& rate = mixed_->corpora()[number].rate;
    auto chunks = parts_[number].chunks_at(rate.due(std::min(time, Rate::kMaxTime)), request);
    if (!chunks) continue;
    any_told = true;
    const std::uint64_t first = mixed_->first_chunks()[number];
    for (std::uint64_t& chunk : *chunks) chunk += first;
    told_[number] = *std::move(chunks);
  }
  if (!any_told) return std::nullopt;
  std::vector<std::uint64_t> all;
  for (const auto& chunks : told_) all.insert(all.end(), chunks.begin(), chunks.end());
  return all;
}

}  // namespace sweephand
