#include "order/block_deal.hpp"

#include "order/fisher_yates.hpp"

#include <algorithm>
#include <numeric>

namespace sweephand {
namespace {

constexpr std::size_t kDealtAtOnce =
    64;  // places that are dealt before their samples are counted

// Deals from the last place down, until what was dealt begins at or before `sample`; returns
// where. `size_of` returns the size of an item.
template <class Item, class SizeOf>
BlockPlace deal_down_to(std::span<Item> items, std::uint64_t key, std::uint64_t num_samples,
                        std::uint64_t sample, const SizeOf& size_of) {
  FisherYates<Item> deal(items, key);
  std::uint64_t start = num_samples;
  while (deal.left() != 0 && (start > sample || deal.left() == items.size())) {
    const std::size_t end = deal.left();
    deal.deal_down_to((end - 1) / kDealtAtOnce * kDealtAtOnce);
    for (std::size_t i = deal.left(); i < end; ++i) start -= size_of(items[i]);
  }
  return {.place = deal.left(), .start = start};
}

// The rank in the block in the high half, the size in the low one.
std::uint32_t size_of(std::uint64_t item) noexcept { return static_cast<std::uint32_t>(item); }

std::uint64_t sequence_of(std::span<const SequenceRun> chunks, std::uint64_t rank) noexcept {
  std::size_t chunk = 0;
  for (; rank >= chunks[chunk].count; ++chunk) rank -= chunks[chunk].count;
  return chunks[chunk].first + rank;
}

}  // namespace

std::uint64_t start_at_or_after(const BlockDeal& block, std::uint64_t sample) {
  if (sample >= block.num_samples) return block.num_samples;
  BlockPlace found = deal_down_to(block.sizes, block.key, block.num_samples, sample,
                                  [](std::uint32_t size) { return size; });
  while (found.start < sample) found.start += block.sizes[found.place++];
  return found.start;
}

ListRun run_at_or_after(const BlockDeal& block, std::uint64_t sample,
                        std::vector<std::uint64_t>& items) {
  items.resize(block.sizes.size());
  for (std::size_t i = 0; i < items.size(); ++i) items[i] = i << 32U | block.sizes[i];
  const BlockPlace dealt =
      deal_down_to<std::uint64_t>(items, block.key, block.num_samples, sample, size_of);
  std::uint64_t place = dealt.place;
  std::uint64_t start = dealt.start;
  while (start < sample && place < items.size()) start += size_of(items[place++]);
  for (std::size_t i = 0; i < ListRun::kBefore && place > dealt.place; ++i)
    start -= size_of(items[--place]);
  ListRun run;
  run.first = {.block = 0, .place = place, .start = start};
  run.num_places = items.size();
  for (; run.count < ListRun::kMost && place < items.size(); ++place) {
    const std::uint64_t item = items[place];
    run.sequences[run.count++] = {.sequence = sequence_of(block.chunks, item >> 32U),
                                  .size = size_of(item),
                                  .lane = 0,
                                  .sweep = 0};
    start += size_of(item);
  }
  run.end = start;
  return run;
}

}  // namespace sweephand
