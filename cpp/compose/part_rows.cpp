#include "compose/part_rows.hpp"

#include "base/mix.hpp"
#include "compose/planner.hpp"

#include <algorithm>

namespace sweephand {
namespace {

constexpr std::uint64_t kRowShuffle = 5;  // the purpose of a key: docs/layouts.md, section 3
constexpr std::uint64_t kMostRows = std::uint64_t{1} << 11;  // of a pack, about
constexpr std::uint64_t kMostSequences = std::uint64_t{1} << 18;
constexpr std::uint64_t kLeastRows = 512;

// Packs of about kMostRows, but of no more than about kMostSequences, and of no more chunks
// than the window, if those fill kLeastRows.
std::uint64_t parts_per_sweep(const Timeline& timeline, const Packing& packing) {
  const auto [samples, sequences, blocks] = timeline.extent();
  const std::uint64_t most = kMostRows * packing.row_length;
  const std::uint64_t lanes = timeline.settings().num_lanes;
  const std::uint64_t windows = (blocks + lanes - 1) / lanes;
  return std::max({std::uint64_t{1}, (samples + most / 2) / most, sequences / kMostSequences,
                   std::min(windows, samples / (kLeastRows * packing.row_length))});
}

PartReader reader_of(const std::shared_ptr<const Timeline>& timeline, const Packing& packing) {
  return {timeline, parts_per_sweep(*timeline, packing), kNoLimit};
}

std::unique_ptr<Pack> pack_of(Part part, const Packing& packing, const Timeline& timeline) {
  if (part.sequences.empty()) refuse_changed_sizes();
  Pieces pieces(packing);
  pieces.reserve(part.sequences.size());
  for (auto& block : part.blocks) pieces.add(std::move(block));
  for (std::size_t place = 0; place < part.sequences.size(); ++place) {
    pieces.add(part.sequences[place], part.block_of[place]);
  }
  if (!timeline.first_sequences().empty())
    return pieces.of_mixture(timeline.first_sequences(), part.begin);
  return pieces.shuffled(derive_key({kOrderVersion, timeline.settings().seed, kRowShuffle,
                                     part.sweep, part.number}),
                         part.begin);
}

}  // namespace

PartRows::PartRows(const std::shared_ptr<const Timeline>& timeline, const Packing& packing,
                   std::uint64_t time)
    : timeline_(timeline), packing_(packing), reader_(reader_of(timeline, packing)) {
  open(reader_.at(time));
  while (this->time() < time && !sweep_done()) pop();
}

void PartRows::open(Part part) {
  ends_sweep_ = part.ends_sweep;
  pack_ = pack_of(std::move(part), packing_, *timeline_);
  row_ = 0;
}

// Where the next pack fails, the last row of this one stays in front.
void PartRows::pop() {
  if (row_ + 1 == pack_->num_rows() && !ends_sweep_) {
    open(reader_.next());
    return;
  }
  ++row_;
  if (!pack_done()) pack_->blocks.close_before(row_);
}

std::uint64_t PartRows::boundary(const std::shared_ptr<const Timeline>& timeline,
                                 const Packing& packing, std::uint64_t time) {
  return reader_of(timeline, packing).boundary(time);
}

std::uint64_t PartRows::find(const std::shared_ptr<const Timeline>& timeline,
                             const Packing& packing, std::uint64_t sequence,
                             std::uint64_t sweep) {
  PartReader reader = reader_of(timeline, packing);
  const auto pack = pack_of(reader.at(timeline->find(sequence, sweep)), packing, *timeline);
  const Pack::Place place = pack->find(sequence, timeline->sweep_mark(sweep));
  return pack->starts[place.row] + place.column;
}

}  // namespace sweephand
