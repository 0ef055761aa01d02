// Sequences joined into rows of fixed length, planned from lengths alone: docs/layouts.md,
// section 2.
#pragma once

#include "index/sizes.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// The most of a carried stream that a row holds.
struct Limit {
  std::shared_ptr<const Sizes> counts;  // items of every sequence of the corpus; what is more
                                        // than a row holds counts as that
  std::uint32_t most = 0;
};

struct Packing {
  std::uint32_t row_length = 0;   // in [1, 2^31]
  std::uint64_t look_ahead = 64;  // of an order that is kept, and of each corpus of a mixture
  bool split_long = false;  // sequences longer than a row are cut; without it, they are refused
  std::uint32_t micro_batch_rows = 0;  // of every micro-batch of a share; 0: it is not grouped
  std::vector<Limit> limits{};
};

// Throws std::invalid_argument for a row length outside [1, 2^31] or a look-ahead of 0.
void check(const Packing& packing);

// Sequences by their places in the list that was packed, row after row.
struct Rows {
  std::vector<std::uint32_t> members;
  std::vector<std::uint32_t> ends;  // where each row ends in `members`
};

// The items of one carried stream in each sequence, and the most of them in a row.
struct Load {
  std::span<const std::uint32_t> counts;  // of every sequence, 0 at least
  std::uint32_t limit = 0;
};

// A list of sequences, or pieces of them.
struct PackItems {
  std::span<const std::uint32_t> sizes;
  std::span<const Load> loads{};
  // Of a mixture, whose pieces are in its order: the number of each one's corpus, and its sweep
  // of it; those side by side differ.
  std::span<const std::uint16_t> corpora{};
  std::span<const std::uint16_t> sweeps{};
};

enum class Fill : std::uint8_t {
  // Opens each row with the oldest of the `look_ahead` sequences in sight, then takes the
  // longest that fits, again and again. The sequences of a row are in the order in which they
  // were taken; a sequence waits at most look_ahead - 1 rows. With look_ahead = 1: next fit.
  kInOrder,
  // First fit decreasing: all sequences are in sight, and a row is opened with the longest. The
  // sequences of a row are in the order of the list.
  kLongestFirst,
  // Rows of several corpora that keep each corpus' sweeps and share.
  //
  //   mixture    a1 a2 b1 a3 c1 a4 b2 a5 …   pieces in the order of their keys
  //   in sight   a: a1 a2 a3 …               of each corpus the oldest, of one sweep alone, as
  //              b: b1 b2 …                  long as less of it is delivered than the mixture
  //              c: c1                       has up to the end of the next row
  kMixed,
};

// Rows within the limits of all loads. REQUIRES: 1 <= size <= row_length <= 2^31 for every
// size, fewer than 2^32 - 1 sizes, look_ahead >= 1; counts <= limit, 1 <= limit <= 2^31, as
// many counts as sizes; of kMixed corpora and sweeps of all
Rows pack(const PackItems& items, Fill fill, std::uint32_t row_length,
          std::uint64_t look_ahead);

// The same of kMixed.
Rows pack_mixed(const PackItems& items, std::uint32_t row_length, std::uint64_t look_ahead);

}  // namespace sweephand
