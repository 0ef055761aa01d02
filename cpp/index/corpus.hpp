// A corpus as the planner sees it: its chunks and the sizes of its sequences.
#pragma once

#include "index/chunk_table.hpp"
#include "index/sizes.hpp"

#include <memory>

namespace sweephand {

struct Corpus {
  ChunkTable chunks;
  std::shared_ptr<const Sizes> sizes;
};

}  // namespace sweephand
