// Sequences that are made from stored ones when a minibatch needs them.
//
//   share of the plan   17 4 4 90     pieces of sequences of the corpus that is planned
//   wanted              17 4 90       each once, of one sweep
//   origins              3 1 3        numbers of their origins in the stored corpus
//   stored minibatch     3 1 3        whole, ragged; without damaged ones
//   chunks              17 4 | 90     results of the map
#pragma once

#include "compose/plan.hpp"
#include "engine/assemble.hpp"
#include "engine/batch.hpp"
#include "engine/members.hpp"
#include "engine/runs.hpp"
#include "index/sizes.hpp"
#include "read/column.hpp"
#include "run/work_time.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

namespace sweephand {

// Some sequences of a corpus, each of a sweep, that are to be made.
struct WantedSequences {
  std::vector<std::uint64_t> numbers;  // in the mapped corpus
  std::vector<std::uint64_t> sweeps;
  std::vector<std::uint32_t> sizes;  // that were planned of the whole sequences
};

class SequenceMap {
 public:
  SequenceMap() = default;
  SequenceMap(const SequenceMap&) = delete;
  SequenceMap& operator=(const SequenceMap&) = delete;
  virtual ~SequenceMap() = default;

  // Makes the wanted sequences, as chunks of only these, one after the other. `stored` holds
  // their origins: its sequence i is the origin of sequence `places[i]`. Sequences without an
  // origin are damaged, and their chunk skips them. Called from several threads at once.
  virtual std::vector<std::shared_ptr<const Chunk>> make(
      WantedSequences wanted, std::vector<std::uint64_t> places,
      std::shared_ptr<const Batch> stored) = 0;
};

class MappedSequences final : public Sequences {
 public:
  // `stored` lays out the stored sequences unchanged, and `sizes` are those of its sequences.
  // `origins`: the stored sequence that each is made of; empty: that of the same number, of
  // which there are `num_stored`.
  MappedSequences(std::shared_ptr<Assembler> stored, std::shared_ptr<const Sizes> sizes,
                  std::uint64_t num_stored, std::vector<std::uint64_t> origins,
                  std::shared_ptr<SequenceMap> map);

  // Of the mapped corpus.
  std::uint64_t num_sequences() const noexcept override {
    return origins_.empty() ? num_stored_ : origins_.size();
  }

  Located locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                 const Turn& turn) override;
  bool keeps_chunks() const noexcept override { return members().keeps_chunks(); }
  bool loads_ahead() const noexcept override { return members().loads_ahead(); }
  void load_ahead(std::span<const std::uint64_t> chunks) override {
    members().load_ahead(chunks);
  }
  bool close(std::chrono::duration<double> limit) override { return members().close(limit); }
  bool runs_here() const override { return members().runs_here(); }

  // Time and bytes of loading and mapping.
  LoadStats stats() const override;

 private:
  // Of the stored corpus.
  Members& members() const noexcept { return stored_->members(); }
  Plan plan_of(const WantedSequences& wanted, const Plan& plan) const;

  std::shared_ptr<Assembler> stored_;
  std::shared_ptr<const Sizes> sizes_;
  std::uint64_t num_stored_;
  std::vector<std::uint64_t> origins_;
  std::shared_ptr<SequenceMap> map_;
  mutable std::mutex mutex_;  // guards `work_`
  WorkTime work_;
};

}  // namespace sweephand
