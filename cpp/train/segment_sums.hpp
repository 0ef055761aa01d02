// Sums of losses: one for each segment of an array, which holds a loss for each token.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Of each segment the sum of the values in [begins[i], begins[i] + sizes[i]), added up in
// double and in a fixed order: the same bits on every machine. Segments may be in any order,
// and leave out or share values. Throws std::invalid_argument where there are not as many sizes
// as begins, or a segment reaches beyond the values.
std::vector<double> segment_sums(std::span<const float> values,
                                 std::span<const std::uint64_t> begins,
                                 std::span<const std::uint64_t> sizes);

// The same of pieces in rows of `width` values, as `cells` place them; values beyond a row are
// left out. The last entry is the sum of all values, in gaps as well. Throws
// std::invalid_argument where `cells` are not four numbers for each size: row, column, and two
// that do not matter here; or a row is beyond the values.
std::vector<double> row_sums(std::span<const float> values,
                             std::span<const std::uint32_t> cells,
                             std::span<const std::uint32_t> sizes, std::uint64_t width);

}  // namespace sweephand
