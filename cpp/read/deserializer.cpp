#include "read/deserializer.hpp"

#include <stdexcept>

namespace sweephand {

std::shared_ptr<const Chunk> Deserializer::load(std::uint64_t /*chunk*/) {
  throw std::logic_error("this deserializer has no chunks");
}

std::shared_ptr<const Chunk> Deserializer::fetch(std::span<const std::uint64_t> /*sequences*/) {
  throw std::logic_error("this deserializer reads chunks");
}

}  // namespace sweephand
