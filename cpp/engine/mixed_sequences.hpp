// Sequences of a mixture, each read from its own corpus.
#pragma once

#include "base/search.hpp"
#include "engine/batch.hpp"
#include "engine/members.hpp"
#include "index/corpus.hpp"
#include "order/rate.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// The sequences of one corpus of a mixture.
struct MixedMember {
  Member member;
  std::vector<StreamSpec> streams;     // of that member alone
  std::vector<std::uint32_t> columns;  // of its chunks, in the order of the mixture's streams;
                                       // numbers behind them are of `absent`
  std::vector<StreamSpec> absent;      // carried streams of others, of which it has nothing
  std::shared_ptr<const Corpus> corpus;  // as its timeline has it
  Rate rate;                             // by which the mixture goes through it
};

class MixedSequences final : public Sequences {
 public:
  // `load_ahead`, `report`: as those of Members. `led_by_first`: the members are joined to
  // others of their corpora, whose chunks decide which chunks are kept.
  MixedSequences(std::vector<MixedMember> members, bool load_ahead, bool led_by_first,
                 const Report& report);

  std::uint64_t num_sequences() const noexcept override { return first_sequences_.back(); }
  bool in_memory() const noexcept override {
    return std::ranges::all_of(own_, [](const Own& own) { return own.in_memory != nullptr; });
  }
  Located locate(const Plan& plan, std::span<const std::uint64_t> numbers,
                 const Turn& turn) override;
  bool keeps_chunks() const noexcept override { return any(&Members::keeps_chunks); }
  bool loads_ahead() const noexcept override { return any(&Members::loads_ahead); }
  void load_ahead(std::span<const std::uint64_t> chunks) override;
  bool close(std::chrono::duration<double> limit) override;
  bool runs_here() const override { return any(&Members::runs_here); }
  LoadStats stats() const override;

 private:
  struct Own {
    std::unique_ptr<Members> members;
    std::vector<std::uint32_t> columns;  // empty: as they are
    std::vector<StreamSpec> absent;
    std::shared_ptr<const Corpus> corpus;
    Rate rate;
    std::shared_ptr<const Chunk> in_memory;  // all of it, in the mixture's columns; else null
  };
  // The part of a plan that is of one corpus.
  struct Share {
    explicit Share(std::size_t number) : corpus(number) {}
    std::size_t corpus;
    Plan plan;
    std::vector<std::size_t> places;  // in the whole plan
  };

  bool any(bool (Members::*asked)() const) const {
    return std::ranges::any_of(
        own_, [=](const Own& own) { return !own.in_memory && ((*own.members).*asked)(); });
  }
  std::size_t corpus_of(std::uint64_t number) const noexcept {
    return guess_.find(first_sequences_, number);
  }
  std::vector<Share> split(const Plan& plan, std::span<const std::uint64_t> numbers,
                           Located& in_memory) const;
  static Located locate_own(Own& own, const Plan& plan, const Turn& turn);

  std::vector<Own> own_;
  std::vector<std::uint64_t> first_sequences_;  // in the mixture, of every corpus, and the end
  EvenGuess guess_;                             // of corpora
  std::vector<std::uint64_t> first_chunks_;
  std::map<const Corpus*, std::size_t> numbers_;  // of corpora
};

}  // namespace sweephand
