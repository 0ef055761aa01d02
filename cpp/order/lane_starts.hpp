// The begins of the lanes of a sweep, and their places at an offset.
#pragma once

#include "order/dealt_list.hpp"
#include "order/list_run.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

class Sweep;

// Blocks of a window's size are dealt only as far as a place needs: a lane is in one, begins in
// another, and may continue in neither. Lists of the blocks that were used last are kept, if
// they are small, as reading on continues with them. Sizes of many blocks are requested at
// once. Those that many lanes share, or that are large, are made and held by the sweep. Every
// call names the same sweep.
class LaneStarts {
 public:
  explicit LaneStarts(std::uint32_t num_lanes) : firsts_(num_lanes) {}

  // The start of the first sequence of a lane; the end of the list for num_lanes().
  std::uint64_t first(Sweep& sweep, std::uint32_t lane);

  // As Sweep::samples_before.
  std::uint64_t samples_before(Sweep& sweep, std::uint64_t offset, std::uint32_t lane);

  // The first sequence of a lane at or after `sample`, with the list, which is not kept any
  // longer. Valid until let_go. REQUIRES: samples_before was asked of it
  LanePlace place(Sweep& sweep, std::uint32_t lane, std::uint64_t sample);

  void let_go() noexcept {
    runs_.clear();
    lists_.clear();
    num_kept_ = 0;
    border_.reset();
  }

 private:
  // A lane, and a sample of the list.
  struct Wanted {
    std::uint32_t lane;
    std::uint64_t sample;
  };

  template <class Visit>
  void deal(const Sweep& sweep, std::span<const Wanted> wanted, const Visit& visit);
  void find_firsts(Sweep& sweep, std::span<const Wanted> wanted);
  void find_runs(Sweep& sweep, std::span<const Wanted> wanted);
  void keep(std::uint32_t lane, DealtList list);
  void find_all(Sweep& sweep, std::uint64_t offset, std::uint32_t lane);

  std::vector<std::optional<std::uint64_t>> firsts_;  // of each lane, once known
  std::vector<ListRun> runs_;                         // where each was looked at last
  std::vector<DealtList> lists_;                      // of the blocks of these, or empty
  std::uint64_t num_kept_ = 0;                        // sequences in these
  std::shared_ptr<const Block> border_;  // where a lane begins: once, and perhaps the next one
};

}  // namespace sweephand
