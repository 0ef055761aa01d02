// The values in a list of a tf.train.Feature; see example.hpp.
#pragma once

#include "read/column_vector.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Each adds the values of a list message, and throws DataError when it is damaged. REQUIRES:
// kVarintPadding more bytes after `list` may be read
void append_list(std::span<const std::byte> list, ColumnVector<std::int64_t>& values);
void append_list(std::span<const std::byte> list, ColumnVector<float>& values);

// A value of bytes ends where the list of `ends` says.
void append_list(std::span<const std::byte> list, ColumnVector<char>& values,
                 std::vector<std::int64_t>& ends);

}  // namespace sweephand
