// Turns a file format, or arrays, into chunks.
#pragma once

#include "read/column.hpp"

#include <cstdint>
#include <memory>
#include <span>

namespace sweephand {

class Deserializer {
 public:
  Deserializer() = default;
  Deserializer(const Deserializer&) = delete;
  Deserializer& operator=(const Deserializer&) = delete;
  virtual ~Deserializer() = default;

  // The sequences of one chunk, in storage order. Called from several threads at once.
  // Throws DataError with its place when the bytes are wrong.
  virtual std::shared_ptr<const Chunk> load(std::uint64_t chunk) = 0;

  // Resident data is one chunk, number 0, that holds the whole corpus and costs nothing to
  // load: arrays in memory, files that are read sequence by sequence.
  virtual bool resident() const noexcept { return false; }
};

}  // namespace sweephand
