// Turns a file format, or arrays, into chunks.
#pragma once

#include "read/column.hpp"

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace sweephand {

// How sequences are read.
enum class Access : std::uint8_t {
  kChunks,     // a chunk is loaded, and kept while the window needs it
  kResident,   // chunk 0 holds the whole corpus and costs nothing to load: arrays in memory,
               // files that are read sequence by sequence
  kSequences,  // only the sequences of a minibatch are fetched
};

class Deserializer {
 public:
  Deserializer() = default;
  Deserializer(const Deserializer&) = delete;
  Deserializer& operator=(const Deserializer&) = delete;
  virtual ~Deserializer() = default;

  virtual Access access() const noexcept { return Access::kChunks; }

  // The sequences of one chunk, in storage order. Called from several threads at once.
  // Throws DataError with its place when the bytes are wrong. Not for kSequences.
  virtual std::shared_ptr<const Chunk> load(std::uint64_t chunk);

  // The sequences with these numbers, as a chunk of just them. Called from several threads at
  // once, for kSequences only.
  virtual std::shared_ptr<const Chunk> fetch(std::span<const std::uint64_t> sequences);
};

// Data in memory, or in files that are read sequence by sequence: one chunk that is always
// loaded.
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
