// Reads chunks of TFRecord files that hold tf.train.Example messages, one sequence each.
#pragma once

#include "read/deserializer.hpp"
#include "read/example.hpp"
#include "read/file.hpp"
#include "read/ledger.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace sweephand {

struct RecordFile {
  std::string path;
  FileTag tag;  // as it was when the index was made
};

// A run of records.
struct RecordChunk {
  std::uint64_t file = 0;  // its number
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_record = 0;      // its number in the file
  std::uint64_t num_records = 0;       // with those that are skipped
  std::vector<std::uint64_t> skipped;  // numbers in the file, ascending: damaged, left out
};

class RecordDeserializer final : public Deserializer {
 public:
  // Throws std::invalid_argument when the streams are contradictory or a chunk's file does not
  // exist.
  RecordDeserializer(std::vector<ExampleStream> streams, std::vector<RecordFile> files,
                     std::vector<RecordChunk> chunks, bool verify_checksums);

  std::shared_ptr<const Chunk> load(std::uint64_t chunk_number) override;

  // The same for an index: a record that is damaged, or not what the streams say, is left out
  // and listed. Throws DataError when the frames are damaged.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk_number, Ledger& ledger) const;

 private:
  std::vector<ExampleStream> streams_;
  std::vector<RecordFile> files_;
  std::vector<RecordChunk> chunks_;
  bool verify_checksums_;
};

}  // namespace sweephand
