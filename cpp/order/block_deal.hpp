// The list of a block, dealt as far as one of its places needs it, and not kept.
#pragma once

#include "index/corpus.hpp"
#include "order/dealt_list.hpp"
#include "order/list_run.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// A block that is shuffled by a table.
struct BlockDeal {
  std::uint64_t key;                    // of its shuffle
  std::span<const SequenceRun> chunks;  // its sequences in storage order
  std::span<std::uint32_t> sizes;       // and theirs; what is in there then is another order
  std::uint64_t num_samples;            // of all
};

// Where the first sequence starts that does so at or after `sample`, in samples of the block.
// About half of the list is dealt.
std::uint64_t start_at_or_after(const BlockDeal& block, std::uint64_t sample);

// The sequences there, and some before them, of which `list` is dealt as far. Its place is in
// samples of the block, too, which has number 0. REQUIRES: `list` is of the block, and there is
// a sequence there
ListRun run_at_or_after(const BlockDeal& block, std::uint64_t sample, DealtList& list);

}  // namespace sweephand
