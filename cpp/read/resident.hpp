// Data in memory, or in files that are read sequence by sequence: one chunk that is always
// loaded.
#pragma once

#include "read/deserializer.hpp"

#include <memory>
#include <utility>

namespace sweephand {

class ResidentDeserializer final : public Deserializer {
 public:
  explicit ResidentDeserializer(std::shared_ptr<const Chunk> corpus)
      : corpus_(std::move(corpus)) {}

  std::shared_ptr<const Chunk> load(std::uint64_t /*chunk*/) override { return corpus_; }
  Access access() const noexcept override { return Access::kResident; }

 private:
  std::shared_ptr<const Chunk> corpus_;
};

}  // namespace sweephand
