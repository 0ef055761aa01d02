#include "compose/packed_sweep.hpp"

#include "base/error.hpp"
#include "base/mix.hpp"
#include "order/search.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kRowShuffle = 3;  // the purpose of a key: docs/layouts.md, section 3
constexpr std::uint64_t kOpenRows = std::uint64_t{1} << 14;  // over all lanes, but
constexpr std::uint64_t kLeastRows = 512;                    // never fewer in a pack

[[noreturn]] void refuse_sizes() {
  throw StaleError(
      "the sizes of sequences are not those that they were when they were planned");
}

// The pieces of a pack in the order of the list.
class Pieces {
 public:
  explicit Pieces(const Packing& packing) : packing_(packing) {}

  void add(const PlannedSequence& planned) {
    if (planned.size > packing_.row_length && !packing_.split_long) {
      throw std::invalid_argument("sequence " + std::to_string(planned.sequence) + " has " +
                                  std::to_string(planned.size) +
                                  " samples, more than a row of " +
                                  std::to_string(packing_.row_length));
    }
    const std::uint64_t count = (planned.size - 1) / packing_.row_length + std::uint64_t{1};
    if (count >= std::numeric_limits<std::uint32_t>::max() - sizes_.size()) {
      throw std::invalid_argument("a pack may have at most 2^32 - 2 pieces; take longer rows");
    }
    for (std::uint32_t first = 0; first < planned.size;) {
      const std::uint32_t size = std::min(planned.size - first, packing_.row_length);
      pieces_.push_back({.sequence = planned.sequence & (~std::uint64_t{0} >> 1),
                         .goes_on = first + size < planned.size,
                         .first = first,
                         .size = size});
      sizes_.push_back(size);
      first += size;
    }
  }

  // The pieces after this are of `num_sequences` sequences of `block`.
  void add(std::shared_ptr<const Block> block, std::uint64_t num_sequences) {
    pieces_.reserve(pieces_.size() + num_sequences);
    sizes_.reserve(sizes_.size() + num_sequences);
    blocks_.push_back(std::move(block));
    block_begins_.push_back(pieces_.size());
  }

  std::span<const std::uint32_t> sizes() const { return sizes_; }

  // Row q of the pack is row order[q] of `rows`.
  std::unique_ptr<Pack> lay(const Rows& rows, std::span<const std::uint64_t> order,
                            std::uint64_t start) {
    auto pack = std::make_unique<Pack>();
    for (auto& block : blocks_) pack->blocks.add(std::move(block));
    pack->pieces.reserve(pieces_.size());
    pack->ends.reserve(order.size() + 1);
    pack->starts.reserve(order.size() + 1);
    pack->ends.push_back(0);
    pack->starts.push_back(start);
    for (std::uint64_t q = 0; q < order.size(); ++q) {
      const std::uint64_t row = order[q];
      for (std::uint32_t i = row == 0 ? 0 : rows.ends[row - 1]; i < rows.ends[row]; ++i) {
        const Piece& piece = pieces_[rows.members[i]];
        pack->pieces.push_back(piece);
        start += piece.size;
        pack->blocks.need(block_of(rows.members[i]), q);
      }
      pack->ends.push_back(pack->pieces.size());
      pack->starts.push_back(start);
    }
    return pack;
  }

 private:
  std::size_t block_of(std::size_t piece) const {
    if (block_begins_.size() == 1) return 0;
    const auto after = std::ranges::upper_bound(block_begins_, piece);
    return static_cast<std::size_t>(after - block_begins_.begin()) - 1;
  }

  const Packing& packing_;
  std::vector<Piece> pieces_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::shared_ptr<const Block>> blocks_;
  std::vector<std::size_t> block_begins_;
};

}  // namespace

void check(const Packing& packing) {
  if (packing.row_length == 0 || packing.row_length > std::uint32_t{1} << 31) {
    throw std::invalid_argument("row_length must be in [1, 2^31], got " +
                                std::to_string(packing.row_length));
  }
  if (packing.look_ahead == 0) {
    throw std::invalid_argument("look_ahead must be at least 1, got 0");
  }
}

std::uint64_t Pack::row_at(std::uint64_t start) const {
  const auto found = std::ranges::lower_bound(starts, start);
  const auto row = static_cast<std::uint64_t>(found - starts.begin());
  if (row >= num_rows() || *found != start) refuse_sizes();
  return row;
}

PackedSweep::PackedSweep(const Timeline& timeline, const Packing& packing, std::uint64_t number)
    : packing_(packing),
      randomize_(timeline.settings().randomize),
      seed_(timeline.settings().seed),
      sweep_(timeline.sweep(number)),
      pack_samples_(std::max(kLeastRows, kOpenRows / num_lanes()) * packing.row_length) {}

PackRange PackedSweep::range_at(std::uint32_t lane, std::uint64_t sample) const {
  std::uint64_t begin = cut(lane);
  std::uint64_t end = cut(lane + 1);
  // In storage order a row takes from few neighbours only, whatever chunks they are in.
  if (randomize_) {
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
  for (; at.start < range.end; ++at.block, at.place = 0) {
    const std::shared_ptr<const Block> block = sweep_.block(at.block);
    const BlockPlace stop = block->first_at_or_after(range.end - sweep_.block_begin(at.block));
    if (at.place < stop.place) pieces.add(block, stop.place - at.place);
    while (at.place < stop.place) {
      const std::span part = std::span(buffer).first(
          std::min<std::uint64_t>(buffer.size(), stop.place - at.place));
      block->fill(at.place, part);
      for (const PlannedSequence& planned : part) pieces.add(planned);
      at.place += part.size();
    }
    at.start = sweep_.block_begin(at.block) + stop.start;
  }
  if (!randomize_) {
    const Rows rows = pack_in_order(pieces.sizes(), packing_.row_length, packing_.look_ahead);
    std::vector<std::uint64_t> order(rows.ends.size());
    std::iota(order.begin(), order.end(), std::uint64_t{0});
    return pieces.lay(rows, order, start);
  }
  const Rows rows = pack_longest_first(pieces.sizes(), packing_.row_length);
  std::vector<std::uint64_t> order(rows.ends.size());
  Permutation(order.size(),
              derive_key({kOrderVersion, seed_, kRowShuffle, number(), range.begin}))
      .fill(0, order);
  return pieces.lay(rows, order, start);
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
  // `sample` may lie behind the range of its pack, in the last sequence that starts there.
  while (sweep_.first_at_or_after(range.begin).start > sample) {
    if (range.begin <= cut(lane)) refuse_sizes();
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
  if (found == starts.end()) refuse_sizes();
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
  std::uint64_t row = 0;
  std::uint64_t column = 0;
  for (std::uint64_t i = 0; pack.pieces[i].sequence != sequence || pack.pieces[i].first != 0;) {
    column += pack.pieces[i].size;
    if (i + 1 == pack.pieces.size()) refuse_sizes();
    if (++i == pack.ends[row + 1]) {
      ++row;
      column = 0;
    }
  }
  return samples_before(pack.starts[row] - cut(lane), lane) + column;
}

void PackedSweep::let_go() noexcept {
  packs_.clear();
  sweep_.let_go();
}

}  // namespace sweephand
