// The columns of a chunk as arrays.
#pragma once

#include "bind/bind.hpp"
#include "read/column.hpp"

#include <memory>

namespace sweephand {

// For each stream (values, sample offsets, element offsets or None, indices or None),
// read-only. The arrays keep the chunk.
py::list to_arrays(const std::shared_ptr<const Chunk>& chunk);

}  // namespace sweephand
