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
  // those of the streams, for errors.
  FrameDeserializer(std::shared_ptr<Deserializer> sequences, std::vector<std::string> names)
      : sequences_(std::move(sequences)), names_(std::move(names)) {}

  // Throws DataError naming two streams and the first sequence of unequal lengths.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

  bool resident() const noexcept override { return sequences_->resident(); }

 private:
  void refuse_unequal(const Chunk& chunk) const;

  std::shared_ptr<Deserializer> sequences_;
  std::vector<std::string> names_;
};

}  // namespace sweephand
