#include "order/chunk_uses.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace sweephand {

ChunkUses::ChunkUses(const std::shared_ptr<const Timeline>& timeline, std::uint64_t limit,
                     bool by_lanes) {
  for (TimelinePart& corpus : timeline->parts(limit))
    parts_.push_back({.corpus = std::move(corpus), .by_lanes = by_lanes, .known = {}});
}

ChunkUses::Known& ChunkUses::Part::sweep(std::uint64_t number) {
  for (Known& one : known) {
    if (one.sweep.number() == number) return one;
  }
  if (known.size() > kSweepsAhead + 1) {
    const auto oldest = std::ranges::min_element(
        known, {}, [](const Known& one) { return one.sweep.number(); });
    known.erase(oldest);
  }
  Known& made = known.emplace_back(Known{corpus.timeline->sweep(number), {}});
  const std::uint64_t num_blocks = made.sweep.num_blocks();
  if (num_blocks == 1) return made;
  made.block_of.resize(corpus.timeline->corpus().chunks.num_chunks());
  for (std::uint64_t block = 0; block < num_blocks; ++block) {
    for (const std::uint64_t chunk : made.sweep.chunks_of(block))
      made.block_of[chunk] = static_cast<std::uint32_t>(block);
  }
  return made;
}

// In nominal time, ascending.
std::vector<ChunkUses::Use> ChunkUses::Part::uses(Known& found_in, std::uint64_t chunk,
                                                  std::span<const LaneReader> readers) const {
  Sweep& sweep = found_in.sweep;
  const std::uint64_t samples = sweep.num_samples();
  const std::uint64_t start = sweep.number() * samples;
  if (found_in.block_of.empty()) return {{.begin = start, .end = start + samples}};
  const std::uint64_t block = found_in.block_of[chunk];
  const std::uint64_t first = sweep.block_begin(block);
  const std::uint64_t last = sweep.block_begin(block + 1);
  sweep.let_go();
  const std::uint32_t num_lanes = sweep.num_lanes();
  const auto is_read = [&](std::uint32_t lane) {
    return !by_lanes || std::ranges::any_of(readers, [lane](const LaneReader& reader) {
      return lane % reader.count == reader.index;
    });
  };
  std::vector<Use> found;
  auto lane = static_cast<std::uint32_t>(static_cast<uint128>(first) * num_lanes / samples);
  for (; lane < num_lanes && sweep.cut(lane) < last; ++lane) {
    const std::uint64_t from = std::max(first, sweep.cut(lane));
    const std::uint64_t to = std::min(last, sweep.cut(lane + 1));
    if (from >= to || !is_read(lane)) continue;
    const auto time_of = [&](std::uint64_t place) {
      return start + std::min((place - sweep.cut(lane)) * num_lanes, samples);
    };
    found.push_back({.begin = time_of(from), .end = time_of(to)});
  }
  std::ranges::sort(found, {}, &Use::begin);
  return found;
}

std::uint64_t ChunkUses::Part::next(std::uint64_t chunk, std::uint64_t time,
                                    std::span<const LaneReader> readers, bool skips_one) {
  const std::uint64_t samples = corpus.timeline->num_samples();
  const std::uint64_t now = time / samples;
  for (std::uint64_t number = now; number <= now + kSweepsAhead; ++number) {
    if (static_cast<uint128>(number) * samples >= corpus.limit) return kNever;
    for (const Use& use : uses(sweep(number), chunk, readers)) {
      if (use.end <= time) continue;
      if (!skips_one) return use.begin < corpus.limit ? std::max(use.begin, time) : kNever;
      skips_one = false;
    }
  }
  return std::min((now + kSweepsAhead + 1) * samples, corpus.limit);
}

std::uint64_t ChunkUses::next(std::uint64_t chunk, std::uint64_t time,
                              std::span<const LaneReader> readers, bool skips_one) {
  const auto first_chunk = [](const Part& part) { return part.corpus.first_chunk; };
  Part& part = *std::prev(std::ranges::upper_bound(parts_, chunk, {}, first_chunk));
  const Rate& rate = part.corpus.rate;
  const std::uint64_t next = part.next(
      chunk - first_chunk(part), rate.due(std::min(time, Rate::kMaxTime)), readers, skips_one);
  return next == kNever ? kNever : std::max(time, rate.reached(next));
}

std::vector<std::uint64_t> ChunkUses::next(std::span<const std::uint64_t> chunks,
                                           std::uint64_t time,
                                           std::span<const LaneReader> readers,
                                           bool skips_one) {
  std::vector<std::uint64_t> times(chunks.size());
  std::ranges::transform(chunks, times.begin(), [&](std::uint64_t chunk) {
    return next(chunk, time, readers, skips_one);
  });
  return times;
}

}  // namespace sweephand
