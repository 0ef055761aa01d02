// Bare values in files, read chunk by chunk: for a window, where reading sequence by sequence
// would cost a system call for each.
#pragma once

#include "read/deserializer.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

class ExtentChunks final : public Deserializer {
 public:
  // Chunk i is sequences [starts[i], starts[i + 1]) of `corpus`, whose columns are in extents
  // or are held. Throws std::invalid_argument when the starts do not ascend to its end.
  ExtentChunks(std::shared_ptr<const Chunk> corpus, std::vector<std::uint64_t> starts);

  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

 private:
  std::shared_ptr<const Chunk> corpus_;
  std::vector<std::uint64_t> starts_;
};

}  // namespace sweephand
