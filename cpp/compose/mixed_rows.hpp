// Rows of several corpora that keep each corpus' sweeps and share: docs/layouts.md, section 2.
//
//   mixture    a1 a2 b1 a3 c1 a4 b2 a5 …     pieces in the order of their keys
//   in sight   a: a1 a2 a3 …                 of each corpus the oldest, of one sweep alone, as
//              b: b1 b2 …                    long as it has delivered less than the mixture has
//              c: c1                         of it up to a row behind this one
#pragma once

#include "compose/pack.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// Pieces of a mixture, in its order.
struct MixedPieces {
  std::span<const std::uint32_t> sizes;
  std::span<const std::uint16_t> corpora;  // the number of each piece's corpus
  std::span<const std::uint16_t> sweeps;   // of its corpus: those side by side differ
  std::span<const Load> loads{};
};

// A row takes the oldest in sight until that does not fit, then repeatedly the largest that
// fits; its sequences are in the order of the list. Costs no more for each piece than the bands
// of corpora of which two rows have some. REQUIRES: as of pack_in_order_within, and entries of
// all pieces in each span
Rows pack_mixture(const MixedPieces& pieces, std::uint32_t row_length,
                  std::uint64_t look_ahead);

}  // namespace sweephand
