#include "compose/loads.hpp"

#include <algorithm>

namespace sweephand {

std::vector<KeyedSequence> sequences_of(std::span<const LaneRun> runs, std::uint32_t worker,
                                        std::uint32_t num_workers) {
  std::vector<KeyedSequence> sequences;
  if (runs.empty()) return sequences;
  for (std::uint32_t lane = worker; lane <= runs.back().lane; lane += num_workers) {
    for (const LaneRun& run : std::ranges::equal_range(runs, lane, {}, &LaneRun::lane))
      add_sequences(run, sequences);
  }
  return sequences;
}

std::vector<PlannedSequence> in_order(std::vector<KeyedSequence> sequences) {
  std::ranges::sort(sequences, {}, &KeyedSequence::key);
  std::vector<PlannedSequence> sorted;
  sorted.reserve(sequences.size());
  for (const KeyedSequence& one : sequences) sorted.push_back(one.sequence);
  return sorted;
}

Loads::Loads(std::span<const LaneRun> runs, std::span<const PlannedSequence> rest,
             std::uint32_t num_workers, const Cost& cost)
    : runs_(runs), rest_(rest), cost_(cost), next_(rest.size()), workers_(num_workers) {
  give();
  std::vector<std::pair<uint128, std::uint32_t>> by_load;
  by_load.reserve(num_workers);
  for (std::uint32_t k = 0; k < num_workers; ++k) {
    total_ += workers_[k].load;
    by_load.emplace_back(workers_[k].load, k);
  }
  std::ranges::sort(by_load);
  by_load_ = {by_load.begin(), by_load.end()};
}

void Loads::add(std::uint32_t worker, std::uint32_t j) noexcept {
  next_[j] = std::exchange(workers_[worker].first, j);
}

// Everything about a sequence in one pass: a minibatch of the whole cluster is larger than the
// processor's cache.
void Loads::give() {
  const auto num_workers = static_cast<std::uint32_t>(workers_.size());
  const bool is_linear = this->is_linear();
  for (std::uint32_t j = 0; j < next_.size(); ++j) {
    const std::uint32_t k = first_owner(rest_[j].lane, num_workers);
    add(k, j);
    if (is_linear) {
      workers_[k].samples += rest_[j].size;
    } else {
      workers_[k].load += cost_of(j);
    }
  }
  give_runs();
  if (!is_linear) return;
  // In proportion to samples, whose sums fit a word.
  for (Worker& worker : workers_) worker.load = uint128{worker.samples} * cost_.per_sample;
}

void Loads::give_runs() {
  const auto num_workers = static_cast<std::uint32_t>(workers_.size());
  std::vector<KeyedSequence> sequences;
  for (const LaneRun& run : runs_) {
    Worker& worker = workers_[first_owner(run.lane, num_workers)];
    worker.samples += run.samples;
    if (is_linear()) continue;
    sequences.clear();
    add_sequences(run, sequences);
    for (const auto& [key, planned] : sequences)
      worker.load += cost_.of(planned.sequence, 0, planned.size);
  }
}

// Lists the sequences of a worker's runs, once.
void Loads::list(std::uint32_t worker) {
  if (runs_.empty() || std::exchange(workers_[worker].is_listed, true)) return;
  const auto num_workers = static_cast<std::uint32_t>(workers_.size());
  for (const KeyedSequence& one : sequences_of(runs_, worker, num_workers)) {
    listed_.push_back(one);
    next_.push_back(kEnd);
    add(worker, static_cast<std::uint32_t>(next_.size() - 1));
  }
}

bool Loads::even() {
  const auto [least, emptiest] = *by_load_.begin();
  const uint128 most = by_load_.rbegin()->first;
  const std::uint32_t fullest = by_load_.lower_bound({most, 0})->second;
  const uint128 gap = most - least;
  if (gap * workers_.size() * 64 <= total_) return false;
  list(fullest);
  std::uint32_t* const best = best_to_move(workers_[fullest].first, gap);
  if (best == nullptr) return false;
  const std::uint32_t j = std::exchange(*best, next_[*best]);
  add(emptiest, j);
  change(fullest, most - cost_of(j));
  change(emptiest, least + cost_of(j));
  return true;
}

// The link to the sequence whose cost is below `gap` and nearest to half of it; of equals the
// last in the minibatch. Null if there is none.
std::uint32_t* Loads::best_to_move(std::uint32_t& first, uint128 gap) {
  std::uint32_t* best = nullptr;
  uint128 nearest = gap;  // |2 cost - gap| of a cost in (0, gap) is below gap
  for (std::uint32_t* link = &first; *link != kEnd; link = &next_[*link]) {
    const uint128 cost = cost_of(*link);
    const uint128 distance = 2 * cost > gap ? 2 * cost - gap : gap - 2 * cost;
    if (cost >= gap || distance > nearest) continue;
    if (distance == nearest && best != nullptr && key(*best) > key(*link)) continue;
    best = link;
    nearest = distance;
  }
  return best;
}

void Loads::change(std::uint32_t worker, uint128 load) {
  by_load_.erase({workers_[worker].load, worker});
  workers_[worker].load = load;
  by_load_.emplace(load, worker);
}

std::vector<PlannedSequence> Loads::share(std::uint32_t worker) {
  list(worker);
  std::vector<KeyedSequence> owned;
  for (std::uint32_t j = workers_[worker].first; j != kEnd; j = next_[j])
    owned.push_back({.key = key(j), .sequence = sequence(j)});
  return in_order(std::move(owned));
}

std::vector<std::uint32_t> Loads::owners() const {
  std::vector<std::uint32_t> owners(next_.size());
  for (std::uint32_t k = 0; k < workers_.size(); ++k) {
    for (std::uint32_t j = workers_[k].first; j != kEnd; j = next_[j]) owners[j] = k;
  }
  return owners;
}

}  // namespace sweephand
