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
  // Takes the chunks of `sequences`, in which all streams must have equal lengths; `streams`
  // are their names.
  FrameDeserializer(std::shared_ptr<Deserializer> sequences, std::vector<std::string> streams)
      : sequences_(std::move(sequences)), streams_(std::move(streams)) {}

  // Throws DataError naming the first sequence of unequal lengths.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

  bool resident() const noexcept override { return sequences_->resident(); }

 private:
  std::shared_ptr<Deserializer> sequences_;
  std::vector<std::string> streams_;
};

}  // namespace sweephand
