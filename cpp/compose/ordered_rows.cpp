#include "compose/ordered_rows.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <array>

namespace sweephand {
namespace {

constexpr std::uint64_t kPackRows = std::uint64_t{1} << 14;  // about as many

// The sequences that start in [begin, end) of the sweep's list are packed together.
struct PackRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// REQUIRES: sample < sweep.num_samples()
PackRange range_at(const Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  const uint128 pack_samples = uint128{kPackRows} * packing.row_length;
  const uint128 samples = sweep.num_samples();
  const uint128 count = std::max<uint128>(1, (samples + pack_samples / 2) / pack_samples);
  // The largest index whose begin is at or before `sample`.
  const uint128 index = ((uint128{sample} + 1) * count - 1) / samples;
  return {.begin = static_cast<std::uint64_t>(index * samples / count),
          .end = static_cast<std::uint64_t>((index + 1) * samples / count)};
}

// The range of the pack whose rows cover `sample`. REQUIRES: sample < sweep.num_samples()
PackRange range_holding(Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  PackRange range = range_at(sweep, packing, sample);
  // `sample` may be after the range of its pack, in the last sequence that starts there.
  while (sweep.first_at_or_after(range.begin).start > sample) {
    if (range.begin == 0) refuse_changed_sizes();
    range = range_at(sweep, packing, range.begin - 1);
  }
  return range;
}

// The pack whose rows cover `sample`. REQUIRES: sample < sweep.num_samples()
std::unique_ptr<Pack> pack_holding(Sweep& sweep, const Packing& packing, std::uint64_t sample) {
  const PackRange range = range_holding(sweep, packing, sample);
  Pieces pieces(packing);
  ListPlace at = sweep.first_at_or_after(range.begin);
  const std::uint64_t start = at.start;
  std::array<PlannedSequence, 64> buffer{};
  std::uint32_t number = 0;  // of the block
  for (; at.start < range.end; ++at.block, at.place = 0) {
    const std::shared_ptr<const Block> block = sweep.block(at.block);
    const BlockPlace stop = block->first_at_or_after(range.end - sweep.block_begin(at.block));
    at.start = sweep.block_begin(at.block) + stop.start;
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
  return pieces.in_order(start);
}

}  // namespace

OrderedRows::OrderedRows(std::shared_ptr<const SweepTimeline> timeline, const Packing& packing,
                         std::uint64_t time)
    : timeline_(std::move(timeline)),
      packing_(packing),
      sweep_(timeline_->sweep(time / timeline_->num_samples())) {
  open_sweep(time % timeline_->num_samples());
}

// Stands at the first row that starts at or after `sample` of the sweep.
void OrderedRows::open_sweep(std::uint64_t sample) {
  time_ = checked_mul(sweep_.number(), sweep_.num_samples());
  checked_add(time_, sweep_.num_samples());
  pack_ = pack_holding(sweep_, packing_, sample);
  const std::vector<std::uint64_t>& starts = pack_->starts;
  const auto found = std::ranges::lower_bound(starts, sample);
  if (found == starts.end()) refuse_changed_sizes();
  time_ += *found;
  row_ = static_cast<std::uint64_t>(found - starts.begin());
  if (row_ == pack_->num_rows()) open_pack(*found);
  sweep_.let_go();
}

// Stands at the row that starts at `start`, or at the end of the sweep.
void OrderedRows::open_pack(std::uint64_t start) {
  pack_.reset();  // at the end its chunks may be closed
  if (start >= sweep_.num_samples()) return;
  pack_ = pack_holding(sweep_, packing_, start);
  row_ = pack_->row_at(start);
  sweep_.let_go();
}

void OrderedRows::enter_next_sweep() {
  sweep_ = timeline_->sweep(sweep_.number() + 1);
  open_sweep(0);
}

void OrderedRows::pop() {
  const std::uint64_t start = pack_->starts[row_ + 1];
  time_ += start - pack_->starts[row_];
  if (++row_ == pack_->num_rows())
    open_pack(start);
  else
    pack_->blocks.close_before(row_);
}

void OrderedRows::opened_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  pack_->blocks.opened_at(row_, blocks);
}

void OrderedRows::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  if (pack_) pack_->blocks.open_at(row_, blocks);
}

std::uint64_t OrderedRows::find(const SweepTimeline& timeline, const Packing& packing,
                                std::uint64_t sequence, std::uint64_t sweep) {
  Sweep list = timeline.sweep(sweep);
  const auto pack = pack_holding(list, packing, list.find(sequence).start);
  const Pack::Place place = pack->find(sequence, 0);
  return pack->starts[place.row] + place.column;
}

}  // namespace sweephand
