// Sequences joined into rows of fixed length, planned from lengths alone: docs/layouts.md,
// section 2.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Sequences by their places in the list that was packed, row after row.
struct Rows {
  std::vector<std::uint32_t> members;
  std::vector<std::uint32_t> ends;  // where each row ends in `members`
};

// Opens each row with the oldest of the `look_ahead` sequences in sight, then takes repeatedly
// the longest one in sight that fits. The sequences of a row are in the order in which they
// were taken; a sequence waits at most look_ahead - 1 rows. With look_ahead = 1 this is next
// fit. REQUIRES: 1 <= size <= row_length <= 2^31 for every size, fewer than 2^32 - 1 sizes,
// look_ahead >= 1
Rows pack_in_order(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                   std::uint64_t look_ahead);

// First fit decreasing: all sequences are in sight, and a row is opened with the longest. The
// sequences of a row are in the order of the list. REQUIRES: as above
Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length);

// The same rows with their members in the order of the list.
Rows in_list_order(Rows rows);

}  // namespace sweephand
