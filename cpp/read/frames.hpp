// Every sample as a sequence of its own.
#pragma once

#include "read/deserializer.hpp"

#include <cstdint>
#include <memory>
#include <utility>

namespace sweephand {

class FrameDeserializer final : public Deserializer {
 public:
  // Takes the chunks of `sequences`, in which all streams must have equal lengths.
  explicit FrameDeserializer(std::shared_ptr<Deserializer> sequences)
      : sequences_(std::move(sequences)) {}

  // Throws std::invalid_argument naming streams by their column and the first sequence of
  // unequal lengths.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

  bool resident() const noexcept override { return sequences_->resident(); }

 private:
  std::shared_ptr<Deserializer> sequences_;
};

}  // namespace sweephand
