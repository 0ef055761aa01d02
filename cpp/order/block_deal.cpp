#include "order/block_deal.hpp"

#include "order/fisher_yates.hpp"

#include <algorithm>

namespace sweephand {
namespace {

std::uint64_t sequence_of(std::span<const SequenceRun> chunks, std::uint64_t rank) noexcept {
  std::size_t chunk = 0;
  for (; rank >= chunks[chunk].count; ++chunk) rank -= chunks[chunk].count;
  return chunks[chunk].first + rank;
}

}  // namespace

// As DealtList::first_at_or_after, of sizes alone.
std::uint64_t start_at_or_after(const BlockDeal& block, std::uint64_t sample) {
  if (sample >= block.num_samples) return block.num_samples;
  FisherYates<std::uint32_t> deal(block.sizes, block.key);
  std::uint64_t start = block.num_samples;
  while (deal.left() != 0 && (start > sample || deal.left() == block.sizes.size())) {
    const std::size_t end = deal.left();
    deal.deal_down_to((end - 1) / DealtList::kStride * DealtList::kStride);
    for (std::size_t i = deal.left(); i < end; ++i) start -= block.sizes[i];
  }
  for (std::size_t place = deal.left(); start < sample; ++place) start += block.sizes[place];
  return start;
}

ListRun run_at_or_after(const BlockDeal& block, std::uint64_t sample, DealtList& list) {
  const BlockPlace found = list.first_at_or_after(sample);
  const std::uint64_t before = std::min<std::uint64_t>(found.place, ListRun::kBefore);
  ListRun run;
  run.num_places = list.size();
  run.count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ListRun::kMost, list.size() - (found.place - before)));
  const std::span items = list.items(found.place - before, run.count);
  run.first = {.block = 0, .place = found.place - before, .start = found.start};
  for (std::size_t i = 0; i < before; ++i) run.first.start -= DealtList::size_of(items[i]);
  run.end = run.first.start;
  for (std::size_t i = 0; i < run.count; ++i) {
    run.sequences[i] = {.sequence = sequence_of(block.chunks, DealtList::rank_of(items[i])),
                        .size = DealtList::size_of(items[i]),
                        .lane = 0,
                        .sweep = 0};
    run.end += run.sequences[i].size;
  }
  return run;
}

}  // namespace sweephand
