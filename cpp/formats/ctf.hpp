// Reads chunks of files in CNTK's text format.
#pragma once

#include "formats/ctf_column.hpp"
#include "formats/ctf_scanner.hpp"
#include "formats/ledger.hpp"
#include "index/counts.hpp"
#include "read/byte_source.hpp"
#include "read/deserializer.hpp"
#include "read/file.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// The chunks of text files.
//
//   file 0         | file 1                        | file 2  |
//   | piece        | piece         | piece         | piece   |   of one file, with its line
//   | chunk 0      | chunk 1       | chunk 2                 |   small pieces share a chunk
//
// A run of sequences of one file.
struct CtfPiece {
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
  std::uint64_t first_line = 0;  // from 0
  std::uint64_t num_sequences = 0;
  std::uint64_t num_items = 0;  // errors that were charged when the index was made
  std::size_t file = 0;         // its number
};

// Where the sequences of files, one after the other, begin, as an index has it.
struct CtfPlaces {
  std::span<const std::uint64_t> offsets;       // of every sequence
  std::span<const std::uint64_t> lines;         // of every sequence
  std::span<const std::int64_t> starts;         // the first sequence of each file, and the end
  std::span<const std::uint64_t> sizes;         // of each file, in bytes
  std::span<const std::uint64_t> item_offsets;  // of errors that were charged
  std::span<const std::int64_t> item_starts;    // the first of each file, and the end
};

class CtfChunks {
 public:
  // Of each file, where its content can be entered; nothing: anywhere.
  using Entries = std::vector<std::optional<std::vector<std::uint64_t>>>;

  // Files are cut between sequences into pieces of at most `most_bytes`, or of one sequence;
  // pieces that follow each other share a chunk while they have at most as many. A file with
  // entries is cut where one was passed, and else only where a piece has passed a GiB, as a
  // piece is read from the entry before it on. Throws std::invalid_argument when parts of
  // `places` do not fit together, or a piece ends before it begins.
  CtfChunks(const CtfPlaces& places, std::uint64_t most_bytes, const Entries& entries);

  std::size_t num_files() const noexcept { return num_files_; }

  // The pieces of a chunk. Throws std::out_of_range.
  std::span<const CtfPiece> of(std::uint64_t chunk) const {
    const auto [first, end] = first_pieces_.bounds(chunk);
    return std::span(pieces_).subspan(first, end - first);
  }

  // The first sequence of every chunk.
  const Starts& sequences() const noexcept { return sequences_; }

 private:
  std::size_t num_files_;
  std::vector<CtfPiece> pieces_;
  Starts first_pieces_;  // of every chunk
  Starts sequences_;
};

// Reads chunks of files in CNTK's text format.
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
