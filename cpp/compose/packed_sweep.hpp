// The rows of one sweep: each lane is cut into packs, and each pack is joined into rows by
// itself (docs/layouts.md, section 3).
#pragma once

#include "compose/block_uses.hpp"
#include "compose/pack.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

struct Packing {
  std::uint32_t row_length = 0;   // in [1, 2^31]
  std::uint64_t look_ahead = 64;  // of an order that is kept; a shuffled one has none to keep
  bool split_long = false;  // sequences longer than a row are cut; without it, they are refused
};

// Throws std::invalid_argument for a row length outside [1, 2^31] or a look-ahead of 0.
void check(const Packing& packing);

// A part of a sequence that stands in one row; mostly the whole.
struct Piece {
  std::uint64_t sequence : 63;
  std::uint64_t goes_on : 1;  // 1: the sequence has more samples behind the piece
  std::uint32_t first;        // sample of the sequence
  std::uint32_t size;
};

// The sequences of one lane that start in [begin, end) of the sweep's list.
struct PackRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

// A pack that is planned. Its rows cover its samples of the list without a gap: a row starts
// where its predecessor ends.
struct Pack {
  std::uint64_t num_rows() const noexcept { return ends.size() - 1; }
  std::span<const Piece> row(std::uint64_t row) const noexcept {
    return std::span(pieces).subspan(ends[row], ends[row + 1] - ends[row]);
  }

  // The row that starts at a sample of the list. Throws DataError if none does: sizes that are
  // read again must be what they were. Logarithmic.
  std::uint64_t row_at(std::uint64_t start) const;

  std::vector<Piece> pieces;        // row after row
  std::vector<std::uint64_t> ends;  // entry row + 1: where the row ends in `pieces`
  std::vector<std::uint64_t>
      starts;        // sample of the list at which each row starts, and the end
  BlockUses blocks;  // by row
};

// Packs are planned when they are asked for, and held until let_go. Not for several threads at
// once.
class PackedSweep {
 public:
  // REQUIRES: check(packing)
  PackedSweep(const Timeline& timeline, const Packing& packing, std::uint64_t number);

  std::uint64_t number() const noexcept { return sweep_.number(); }
  std::uint32_t num_lanes() const noexcept { return sweep_.num_lanes(); }
  std::uint64_t num_samples() const noexcept { return sweep_.num_samples(); }
  std::uint64_t cut(std::uint32_t lane) const noexcept { return sweep_.cut(lane); }

  // The rows of a lane cover the list from its first sequence to that of the next lane.
  std::uint64_t lane_begin(std::uint32_t lane) { return sweep_.first_start(lane); }
  std::uint64_t lane_end(std::uint32_t lane) { return sweep_.first_start(lane + 1); }

  // Where the first row of a lane that starts at or after `sample` starts; lane_end(lane) if
  // there is none. Plans at most one pack.
  std::uint64_t row_start(std::uint32_t lane, std::uint64_t sample);

  // Hands over the pack of a row of a lane, given the start of the row. REQUIRES: it is a row
  // of the lane
  std::unique_ptr<Pack> take_pack(std::uint32_t lane, std::uint64_t start);

  // As in Sweep, with rows in place of sequences.
  std::uint64_t samples_before(std::uint64_t offset, std::uint32_t lane);
  std::uint64_t offset_at(std::uint64_t samples);

  // Nominal time at which `sequence` begins in its row, from the begin of the sweep. REQUIRES:
  // the corpus has it
  std::uint64_t find(std::uint64_t sequence);

  void let_go() noexcept;

 private:
  PackRange range_at(std::uint32_t lane, std::uint64_t sample) const;
  PackRange range_holding(std::uint32_t lane, std::uint64_t sample);
  const Pack& pack(PackRange range);
  std::unique_ptr<Pack> plan(PackRange range);

  Packing packing_;
  bool randomize_;
  std::uint64_t seed_;
  Sweep sweep_;
  std::uint64_t pack_samples_;                            // that a pack should have
  std::map<std::uint64_t, std::unique_ptr<Pack>> packs_;  // by the begin of their range
};

}  // namespace sweephand
