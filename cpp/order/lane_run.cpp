#include "order/lane_run.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace sweephand {
namespace {

constexpr unsigned kLaneBits = 16;

}  // namespace

void add_sequences(const LaneRun& run, std::vector<KeyedSequence>& sequences) {
  std::array<PlannedSequence, 64> buffer;
  std::uint64_t offset = run.offset;
  for (std::uint64_t done = 0; done < run.count; done += buffer.size()) {
    const std::span part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), run.count - done));
    run.block->fill(run.place + done, run.lane, part);
    for (const PlannedSequence& sequence : part) {
      sequences.push_back({.key = offset << kLaneBits | run.lane, .sequence = sequence});
      offset += sequence.size;
    }
  }
}

}  // namespace sweephand
