#include "read/retention.hpp"

#include <algorithm>
#include <iterator>

namespace sweephand {

std::uint64_t ChunkParts::chunk_of(std::uint64_t part) const {
  if (starts.empty()) return part;
  // The last start not beyond it: empty chunks share one.
  const auto after = std::ranges::upper_bound(starts, part);
  return static_cast<std::uint64_t>(after - starts.begin()) - 1;
}

std::vector<std::uint64_t> ChunkParts::parts_of(std::span<const std::uint64_t> chunks) const {
  if (starts.empty()) return {chunks.begin(), chunks.end()};
  std::vector<std::uint64_t> parts;
  for (const std::uint64_t chunk : chunks) {
    for (std::uint64_t part = starts[chunk]; part < starts[chunk + 1]; ++part)
      parts.push_back(part);
  }
  return parts;
}

// A chunk of the first member stays as long as a block that holds it is open: in a lane of the
// planner, or in a plan that is being carried out.
bool Retention::wants(const Demand& demand, std::uint64_t chunk) const {
  return demand.wants_all || !stays_while_open(demand) ||
         demand.chunks.contains(parts.chunk_of(chunk));
}

// Otherwise the most recently used chunks stay, as many as this. In an order of the corpus'
// own: as many as are open, and room for the minibatches that are being made, which reach
// further chunks. The chunks of other members may be in any order; they get twice the room that
// they need in the order of the first.
std::uint64_t Retention::most_recent(const Demand& demand) const {
  if (is_first) return open_chunks + demand.num_making * demand.num_used;
  const std::uint64_t open = demand.in_given_order
                                 ? open_chunks + demand.num_making * demand.num_used
                                 : demand.chunks.size();
  return 2 * (open * num_chunks / first_chunks + open);
}

std::vector<std::uint64_t> Retention::leaving(const Demand& demand,
                                              std::span<const HeldChunk> held) const {
  std::vector<HeldChunk> leaving;
  if (demand.wants_all) return {};
  std::ranges::copy_if(held, std::back_inserter(leaving), [&](const HeldChunk& one) {
    return !one.is_loading && !(stays_while_open(demand) && wants(demand, one.chunk));
  });
  if (!stays_while_open(demand)) {
    const std::size_t most = std::min<std::uint64_t>(held.size(), most_recent(demand));
    std::ranges::sort(leaving, {}, &HeldChunk::last_wanted);
    leaving.resize(std::min(leaving.size(), held.size() - most));
  }
  std::vector<std::uint64_t> chunks(leaving.size());
  std::ranges::transform(leaving, chunks.begin(), &HeldChunk::chunk);
  return chunks;
}

}  // namespace sweephand
