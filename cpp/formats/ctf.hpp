// Reads chunks of files in CNTK's text format.
#pragma once

#include "formats/ctf_chunks.hpp"
#include "formats/ctf_format.hpp"
#include "formats/ctf_scanner.hpp"
#include "formats/ledger.hpp"
#include "read/byte_source.hpp"
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

// Reads pieces, one after the other, into one chunk.
class CtfReader {
 public:
  // `num_bytes` is about the total of all pieces. `format` must outlive the reader.
  CtfReader(const CtfFormat& format, std::uint64_t num_bytes);

  // A sequence that the index says to skip is there, without samples. Throws StaleError when
  // the text is not that of the index.
  void read(const ByteSource& source, const CtfPiece& piece, bool ignore_ids);

  // The sequences read. REQUIRES: nothing more is read
  std::shared_ptr<Chunk> take();

 private:
  const CtfFormat& format_;
  std::uint64_t num_bytes_;
  bool is_reserved_ = false;
  Ledger ledger_;
  CtfScanner scanner_;
};

class CtfDeserializer final : public Deserializer {
 public:
  // `chunks` is not null. Throws std::invalid_argument when the format is wrong or it is of
  // other files.
  CtfDeserializer(CtfFormat format, std::vector<CtfFile> files,
                  std::shared_ptr<const CtfChunks> chunks);

  // See CtfReader.
  std::shared_ptr<const Chunk> load(std::uint64_t chunk_number) override;

 private:
  CtfFormat format_;
  std::vector<CtfFile> files_;
  std::shared_ptr<const CtfChunks> chunks_;
};

}  // namespace sweephand
