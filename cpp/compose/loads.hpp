// What workers have of a minibatch while sequences move from one to another: docs/order.md,
// section 7.
#pragma once

#include "compose/cost.hpp"
#include "order/lane_run.hpp"

#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

// The worker who has a lane, or a turn, before any sequence moves.
inline std::uint32_t first_owner(std::size_t lane, std::uint32_t num_workers) noexcept {
  // Mostly there are as many lanes: a division takes longer than all else.
  if (lane < num_workers) return static_cast<std::uint32_t>(lane);
  // NOLINTNEXTLINE(clang-analyzer-core.DivideZero): there is a worker
  return static_cast<std::uint32_t>(lane % num_workers);
}

// The sequences that the lanes of a worker have in `runs`, which are by lane, in no order.
std::vector<KeyedSequence> sequences_of(std::span<const LaneRun> runs, std::uint32_t worker,
                                        std::uint32_t num_workers);

// By their keys, which they lose.
std::vector<PlannedSequence> in_order(std::vector<KeyedSequence> sequences);

class Loads {
 public:
  // The minibatch begins with `runs`, which are by lane, and goes on with `rest`, in order.
  // Each sequence of the rest is looked at, and of runs only those of workers that give some,
  // unless the cost is not in proportion to samples.
  Loads(std::span<const LaneRun> runs, std::span<const PlannedSequence> rest,
        std::uint32_t num_workers, const Cost& cost);

  // Moves one sequence from the fullest worker to the emptiest; of equals the lowest rank.
  // Returns whether there was need, and one that fits.
  bool even();

  // What a worker has, in the order of the minibatch.
  std::vector<PlannedSequence> share(std::uint32_t worker);

  // The worker of each sequence of the rest. REQUIRES: there are no runs
  std::vector<std::uint32_t> owners() const;

 private:
  static constexpr std::uint32_t kEnd = ~std::uint32_t{0};
  static constexpr std::uint64_t kRest = std::uint64_t{1} << 63;  // above all keys

  struct Worker {
    uint128 load = 0;
    std::uint64_t samples = 0;   // before any is moved
    std::uint32_t first = kEnd;  // of what it has, in no order
    bool is_listed = false;      // that includes what it has in runs
  };

  void give();
  void give_runs();
  void list(std::uint32_t worker);
  void add(std::uint32_t worker, std::uint32_t j) noexcept;

  // Sequences are those of the rest, and behind them those of runs that were listed.
  const PlannedSequence& sequence(std::uint32_t j) const noexcept {
    return j < rest_.size() ? rest_[j] : listed_[j - rest_.size()].sequence;
  }
  std::uint64_t key(std::uint32_t j) const noexcept {
    return j < rest_.size() ? kRest + j : listed_[j - rest_.size()].key;
  }
  uint128 cost_of(std::uint32_t j) const {
    return cost_.of(sequence(j).sequence, 0, sequence(j).size);
  }
  bool is_linear() const noexcept { return !cost_.is_quadratic && cost_.items.empty(); }
  std::uint32_t* best_to_move(std::uint32_t& first, uint128 gap);
  void change(std::uint32_t worker, uint128 load);

  std::span<const LaneRun> runs_;
  std::span<const PlannedSequence> rest_;
  Cost cost_;
  std::vector<KeyedSequence> listed_;
  std::vector<std::uint32_t> next_;  // the one behind each that its worker has; or kEnd
  std::vector<Worker> workers_;
  std::set<std::pair<uint128, std::uint32_t>> by_load_;
  uint128 total_ = 0;
};

}  // namespace sweephand
