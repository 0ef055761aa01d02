// Every sample as a sequence of its own.
#pragma once

#include "base/error.hpp"
#include "index/corpus.hpp"
#include "read/deserializer.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

class FrameDeserializer final : public Deserializer {
 public:
  // Takes the chunks of `sequences`, in which all streams must have equal lengths; `corpus` has
  // their sizes. `names` are those of the streams, for errors. A sequence whose number of
  // samples differs from the corpus goes to `report` and is skipped. Throws
  // std::invalid_argument when there are no chunks.
  FrameDeserializer(std::shared_ptr<Deserializer> sequences, std::vector<std::string> names,
                    Corpus corpus, Report report);

  // Throws DataError naming two streams and the first sequence of unequal lengths.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

  Access access() const noexcept override { return sequences_->access(); }

 private:
  // Sequences of the corpus.
  struct Range {
    std::uint64_t first;
    std::uint64_t count;
  };

  Range planned(std::uint64_t chunk) const;
  void read_sizes(const Chunk& chunk, const Range& range, std::uint64_t from,
                  std::span<std::uint32_t> out) const;
  void report(const Chunk& chunk, std::uint64_t sequence, std::uint32_t size,
              const Place& place) const;
  bool add_frames(const Chunk& chunk, std::uint64_t sequence, std::uint32_t size,
                  const Place& place, Chunk& frames) const;
  bool add_frames(const Chunk& chunk, std::uint64_t number, const Range& range,
                  Chunk& frames) const;
  void refuse_unequal(const Chunk& chunk, std::uint64_t sequence) const;

  std::shared_ptr<Deserializer> sequences_;
  std::vector<std::string> names_;
  Corpus corpus_;
  Report report_;
};

}  // namespace sweephand
