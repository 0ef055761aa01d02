#include "order/lane_starts.hpp"

#include "order/block_deal.hpp"
#include "order/sweep.hpp"

#include <algorithm>
#include <utility>

namespace sweephand {
namespace {

// Sequences whose sizes are asked for at once: they stay in the processor's cache.
constexpr std::uint64_t kAtOnce = std::uint64_t{1} << 17;

// Sequences in lists that are kept, in 8 bytes each. Few, as every seek pays for fresh pages,
// and may read only a few sequences of each lane.
constexpr std::uint64_t kMostKept = std::uint64_t{1} << 15;

ListRun run_in(const Block& block, std::uint64_t sample) {
  const BlockPlace found = block.first_at_or_after(sample);
  ListRun run;
  run.num_places = block.num_sequences();
  const std::uint64_t place =
      found.place - std::min<std::uint64_t>(found.place, ListRun::kBefore);
  run.count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ListRun::kMost, run.num_places - place));
  const std::span known = std::span(run.sequences).first(run.count);
  block.fill(place, 0, known);
  run.first = {.block = 0, .place = place, .start = found.start};
  for (std::uint64_t i = place; i < found.place; ++i) run.first.start -= known[i - place].size;
  run.end = run.first.start;
  for (const PlannedSequence& sequence : known) run.end += sequence.size;
  return run;
}

void lay_at(ListRun& run, std::uint64_t block, std::uint64_t begin) noexcept {
  run.first.block = block;
  run.first.start += begin;
  run.end += begin;
}

}  // namespace

// Calls visit(wanted, place of its block, deal) for each. REQUIRES: they are in blocks that can
// be dealt
template <class Visit>
void LaneStarts::deal(const Sweep& sweep, std::span<const Wanted> wanted, const Visit& visit) {
  const ChunkTable& table = sweep.corpus().chunks;
  struct Part {
    std::uint64_t block = 0;
    std::size_t num_chunks = 0;
    std::uint64_t num_sequences = 0;
    std::uint64_t num_samples = 0;
  };
  std::vector<Part> parts;
  std::vector<SequenceRun> chunks;
  std::vector<std::uint32_t> sizes;
  while (!wanted.empty()) {
    parts.clear();
    chunks.clear();
    std::uint64_t count = 0;
    while (parts.size() < wanted.size() && count < kAtOnce) {
      Part& part = parts.emplace_back();
      part.block = sweep.block_at(wanted[parts.size() - 1].sample);
      for (const std::uint64_t chunk : sweep.chunks_of(part.block)) {
        const std::uint64_t in_chunk = table.sequences_in(chunk);
        if (in_chunk == 0) continue;
        chunks.push_back({.first = table.first_sequence(chunk), .count = in_chunk});
        part.num_chunks += 1;
        part.num_sequences += in_chunk;
        part.num_samples += table.samples_in(chunk);
      }
      count += part.num_sequences;
    }
    sizes.resize(count);
    sweep.corpus().sizes->read_runs(chunks, sizes);
    std::span<const SequenceRun> chunks_left = chunks;
    std::span<std::uint32_t> sizes_left = sizes;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      const Part& part = parts[i];
      const std::span own = sizes_left.first(part.num_sequences);
      check_sizes(sweep.corpus(), sweep.chunks_of(part.block), own, part.num_samples);
      visit(wanted[i], part.block,
            BlockDeal{.key = sweep.shuffle_key(part.block),
                      .chunks = chunks_left.first(part.num_chunks),
                      .sizes = own,
                      .num_samples = part.num_samples});
      chunks_left = chunks_left.subspan(part.num_chunks);
      sizes_left = sizes_left.subspan(part.num_sequences);
    }
    wanted = wanted.subspan(parts.size());
  }
}

// Finds the first sequences of lanes, each at its cut.
void LaneStarts::find_firsts(Sweep& sweep, std::span<const Wanted> wanted) {
  const std::uint32_t size = sweep.corpus().sizes->common();
  std::vector<Wanted> dealt;
  for (const Wanted& one : wanted) {
    const std::uint64_t index = sweep.block_at(one.sample);
    const std::uint64_t begin = sweep.block_begin(index);
    const std::uint64_t sample = one.sample - begin;
    if (sample == 0) {
      firsts_[one.lane] = begin;
    } else if (size != 0) {
      firsts_[one.lane] = begin + (sample + size - 1) / size * size;
    } else if (sweep.is_dealt(index)) {
      dealt.push_back(one);
    } else {
      border_ = sweep.block_not_held(index);
      firsts_[one.lane] = begin + border_->first_at_or_after(sample).start;
    }
  }
  deal(sweep, dealt, [&](const Wanted& one, std::uint64_t block, const BlockDeal& deal) {
    const std::uint64_t begin = sweep.block_begin(block);
    firsts_[one.lane] = begin + start_at_or_after(deal, one.sample - begin);
  });
}

void LaneStarts::find_runs(Sweep& sweep, std::span<const Wanted> wanted) {
  std::vector<Wanted> dealt;
  for (const Wanted& one : wanted) {
    const std::uint64_t index = sweep.block_at(one.sample);
    if (sweep.is_dealt(index)) {
      dealt.push_back(one);
    } else {
      const std::uint64_t begin = sweep.block_begin(index);
      keep(one.lane, {});
      runs_[one.lane] = run_in(*sweep.block(index), one.sample - begin);
      lay_at(runs_[one.lane], index, begin);
    }
  }
  deal(sweep, dealt, [&](const Wanted& one, std::uint64_t block, const BlockDeal& deal) {
    const std::uint64_t begin = sweep.block_begin(block);
    keep(one.lane, {});  // the next lane reuses its memory
    DealtList list(deal.sizes.size(), deal.key, deal.num_samples);
    list.set_sizes(0, deal.sizes);
    runs_[one.lane] = run_at_or_after(deal, one.sample - begin, list);
    lay_at(runs_[one.lane], block, begin);
    keep(one.lane, std::move(list));
  });
}

// Replaces the list that is kept for the lane.
void LaneStarts::keep(std::uint32_t lane, DealtList list) {
  num_kept_ -= lists_[lane].size();
  if (num_kept_ + list.size() > kMostKept) list = {};
  num_kept_ += list.size();
  lists_[lane] = std::move(list);
}

std::uint64_t LaneStarts::first(Sweep& sweep, std::uint32_t lane) {
  if (lane == firsts_.size()) return sweep.num_samples();
  if (!firsts_[lane]) {
    const Wanted wanted{.lane = lane, .sample = sweep.cut(lane)};
    find_firsts(sweep, std::span(&wanted, 1));
  }
  return *firsts_[lane];
}

// Finds all positions that samples_before needs.
void LaneStarts::find_all(Sweep& sweep, std::uint64_t offset, std::uint32_t lane) {
  const auto num_lanes = static_cast<std::uint32_t>(firsts_.size());
  runs_.resize(num_lanes);
  lists_.resize(num_lanes);
  std::vector<Wanted> wanted;
  for (std::uint32_t l = 0; l < num_lanes; ++l) {
    const std::uint64_t bound = sweep.cut(l) + offset + (l < lane ? 1 : 0);
    if (bound < sweep.cut(l + 1) && !runs_[l].covers(bound)) wanted.push_back({l, bound});
  }
  find_runs(sweep, wanted);
  wanted.clear();
  for (std::uint32_t l = 0; l < num_lanes; ++l) {
    if (firsts_[l]) continue;
    const std::uint64_t cut = sweep.cut(l);
    if (runs_[l].covers(cut)) {
      firsts_[l] = runs_[l].find(cut).start;
    } else {
      wanted.push_back({l, cut});
    }
  }
  find_firsts(sweep, wanted);
}

std::uint64_t LaneStarts::samples_before(Sweep& sweep, std::uint64_t offset,
                                         std::uint32_t lane) {
  find_all(sweep, offset, lane);
  std::uint64_t samples = 0;
  for (std::uint32_t l = 0; l < firsts_.size(); ++l) {
    const std::uint64_t bound = sweep.cut(l) + offset + (l < lane ? 1 : 0);
    const std::uint64_t reached =
        bound < sweep.cut(l + 1) ? runs_[l].find(bound).start : first(sweep, l + 1);
    samples += reached - first(sweep, l);
  }
  return samples;
}

LanePlace LaneStarts::place(Sweep& sweep, std::uint32_t lane, std::uint64_t sample) {
  const ListRun& run = runs_[lane];
  const BlockPlace found = run.find(sample);
  const std::uint64_t place = run.first.place + found.place;
  if (place == run.num_places)
    return {.at = sweep.behind(run.first.block), .known = {}, .list = {}};
  DealtList list = std::move(lists_[lane]);
  num_kept_ -= list.size();
  return {.at = {.block = run.first.block, .place = place, .start = found.start},
          .known = std::span(run.sequences).first(run.count).subspan(found.place),
          .list = std::move(list)};
}

}  // namespace sweephand
