#include "compose/packed_sweep.hpp"

#include "base/mix.hpp"
#include "order/sweep.hpp"

#include <algorithm>
#include <array>

namespace sweephand {
namespace {

constexpr std::uint64_t kSweepRowShuffle =
    3;  // the purpose of a key: docs/layouts.md, section 3
constexpr std::uint64_t kOpenRows = std::uint64_t{1} << 14;  // over all lanes, but
constexpr std::uint64_t kLeastPackRows = 512;                // never fewer in a pack

}  // namespace

PackedSweep::PackedSweep(const SweepTimeline& timeline, const Packing& packing,
                         std::uint64_t number)
    : packing_(packing),
      keeps_order_(timeline.settings().keeps_order()),
      seed_(timeline.settings().seed),
      sweep_(timeline.sweep(number)),
      pack_samples_(std::max(kLeastPackRows, kOpenRows / num_lanes()) * packing.row_length) {}

PackRange PackedSweep::range_at(std::uint32_t lane, std::uint64_t sample) {
  std::uint64_t begin = cut(lane);
  std::uint64_t end = cut(lane + 1);
  // If the order is kept, a row takes from few neighbours only, whatever their chunks.
  if (!keeps_order_) {
    const std::uint64_t block = sweep_.block_at(sample);
    begin = std::max(begin, sweep_.block_begin(block));
    end = std::min(end, sweep_.block_begin(block + 1));
  }
  const uint128 samples = end - begin;
  const uint128 count = std::max<uint128>(1, (samples + pack_samples_ / 2) / pack_samples_);
  // The largest index whose begin is at or before `sample`.
  const uint128 index = ((uint128{sample} - begin + 1) * count - 1) / samples;
  return {.begin = begin + static_cast<std::uint64_t>(index * samples / count),
          .end = begin + static_cast<std::uint64_t>((index + 1) * samples / count)};
}

std::unique_ptr<Pack> PackedSweep::plan(PackRange range) {
  Pieces pieces(packing_);
  ListPlace at = sweep_.first_at_or_after(range.begin);
  const std::uint64_t start = at.start;
  std::array<PlannedSequence, 64> buffer{};
  std::uint32_t number = 0;  // of the block
  for (; at.start < range.end; ++at.block, at.place = 0) {
    const std::shared_ptr<const Block> block = sweep_.block(at.block);
    const BlockPlace stop = block->first_at_or_after(range.end - sweep_.block_begin(at.block));
    at.start = sweep_.block_begin(at.block) + stop.start;
    if (at.place == stop.place) continue;
    pieces.add(block);
    pieces.reserve(stop.place - at.place);
    while (at.place < stop.place) {
      const std::span part = std::span(buffer).first(
          std::min<std::uint64_t>(buffer.size(), stop.place - at.place));
      block->fill(at.place, 0, part);
      for (const PlannedSequence& planned : part) pieces.add(planned, number);
      at.place += part.size();
    }
    ++number;
  }
  if (keeps_order_) return pieces.in_order(start);
  return pieces.shuffled(
      derive_key({kOrderVersion, seed_, kSweepRowShuffle, this->number(), range.begin}), start);
}

const Pack& PackedSweep::pack(PackRange range) {
  std::unique_ptr<Pack>& known = packs_[range.begin];
  if (!known) known = plan(range);
  return *known;
}

// The range of the pack whose rows cover `sample`. REQUIRES: lane_begin(lane) <= sample <
// lane_end(lane)
PackRange PackedSweep::range_holding(std::uint32_t lane, std::uint64_t sample) {
  PackRange range = range_at(lane, std::min(sample, cut(lane + 1) - 1));
  // `sample` may be after the range of its pack, in the last sequence that starts there.
  while (sweep_.first_at_or_after(range.begin).start > sample) {
    if (range.begin <= cut(lane)) refuse_changed_sizes();
    range = range_at(lane, range.begin - 1);
  }
  return range;
}

std::unique_ptr<Pack> PackedSweep::take_pack(std::uint32_t lane, std::uint64_t start) {
  const PackRange range = range_holding(lane, start);
  const auto known = packs_.find(range.begin);
  return known == packs_.end() ? plan(range) : std::move(packs_.extract(known).mapped());
}

std::uint64_t PackedSweep::row_start(std::uint32_t lane, std::uint64_t sample) {
  if (sample >= lane_end(lane)) return lane_end(lane);
  if (sample <= lane_begin(lane)) return lane_begin(lane);
  const PackRange range = range_holding(lane, sample);
  if (sweep_.first_at_or_after(range.begin).start == sample) return sample;
  const std::vector<std::uint64_t>& starts = pack(range).starts;
  const auto found = std::ranges::lower_bound(starts, sample);
  if (found == starts.end()) refuse_changed_sizes();
  return *found;
}

std::uint64_t PackedSweep::samples_before(std::uint64_t offset, std::uint32_t lane) {
  std::uint64_t samples = 0;
  for (std::uint32_t l = 0; l < num_lanes(); ++l) {
    const std::uint64_t bound = cut(l) + offset + (l < lane ? 1 : 0);
    samples += row_start(l, bound) - lane_begin(l);
  }
  return samples;
}

std::uint64_t PackedSweep::offset_at(std::uint64_t samples) {
  return last_offset(samples / num_lanes(), samples,
                     [&](std::uint64_t offset) { return samples_before(offset, 0); });
}

std::uint64_t PackedSweep::find(std::uint64_t sequence) {
  const std::uint64_t start = sweep_.find(sequence).start;
  // The last lane that begins at or before the start owns it: empty lanes share a cut and are
  // passed.
  std::uint32_t lane = num_lanes() - 1;
  while (cut(lane) > start) --lane;
  const Pack& pack = this->pack(range_holding(lane, start));
  const Pack::Place place = pack.find(sequence, 0);
  return samples_before(pack.starts[place.row] - cut(lane), lane) + place.column;
}

void PackedSweep::let_go() noexcept {
  packs_.clear();
  sweep_.let_go();
}

}  // namespace sweephand
