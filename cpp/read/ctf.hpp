// Reads chunks of files in CNTK's text format.
#pragma once

#include "read/byte_source.hpp"
#include "read/ctf_format.hpp"
#include "read/deserializer.hpp"
#include "read/file.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sweephand {

struct CtfFile {
  std::string path;
  FileTag tag;              // as it was when the index was made
  bool ignore_ids = false;  // see CtfStart
};

struct CtfChunk {
  std::uint64_t file = 0;  // its number
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_line = 0;  // from 0
  std::uint64_t num_sequences = 0;
  std::uint64_t num_items = 0;  // errors that were charged when the index was made
};

// Reads the sequences of a chunk; one that the index says to skip is there, without samples.
// Throws StaleError when the text is not what the index says.
std::shared_ptr<Chunk> read_chunk(const CtfFormat& format, const ByteSource& source,
                                  const CtfChunk& chunk, bool ignore_ids);

class CtfDeserializer final : public Deserializer {
 public:
  // Throws std::invalid_argument when the format is wrong or a chunk's file does not exist.
  CtfDeserializer(CtfFormat format, std::vector<CtfFile> files, std::vector<CtfChunk> chunks);

  // See read_chunk.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk_number) override;

 private:
  CtfFormat format_;
  std::vector<CtfFile> files_;
  std::vector<CtfChunk> chunks_;
};

}  // namespace sweephand
