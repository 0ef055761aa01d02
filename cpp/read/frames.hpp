// Every sample as a sequence of its own.
#pragma once

#include "read/deserializer.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {

class FrameDeserializer final : public Deserializer {
 public:
  // Takes the chunks of `sequences`, in which all streams must have equal lengths. `names` are
  // those of the streams, for errors. Throws std::invalid_argument when there are no chunks.
  FrameDeserializer(std::shared_ptr<Deserializer> sequences, std::vector<std::string> names);

  // Throws DataError naming two streams and the first sequence of unequal lengths.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

  Access access() const noexcept override { return sequences_->access(); }

 private:
  void refuse_unequal(const Chunk& chunk) const;

  std::shared_ptr<Deserializer> sequences_;
  std::vector<std::string> names_;
};

}  // namespace sweephand
