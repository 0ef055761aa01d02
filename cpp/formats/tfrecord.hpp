// Decodes records, of TFRecord files or bare ones, that hold tf.train.Example or
// SequenceExample messages, one sequence each.
#pragma once

#include "base/error.hpp"
#include "formats/example.hpp"
#include "formats/ledger.hpp"
#include "read/byte_source.hpp"
#include "read/column.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// A run of records, one after the other.
struct RecordRun {
  std::span<const std::byte> bytes;
  Place place;  // of the first one: file, offset, and its number as the sequence
  // The begins of bare records, and the end; none: they are in frames.
  std::optional<std::span<const std::int64_t>> offsets = std::nullopt;
};

// Decodes as many sequences as there are records. A record whose data are damaged, or do not
// fit the streams, has no samples in any stream, and is listed. Throws DataError when a frame
// is damaged, std::invalid_argument when the streams are contradictory or the offsets are not
// within the run. REQUIRES: kExamplePadding more bytes after the run may be read
std::shared_ptr<const Chunk> decode_records(const std::vector<ExampleStream>& streams,
                                            const RecordRun& run, bool verify_checksums,
                                            Ledger& ledger);

// The same of the frames in `size` bytes of a file from `offset` on, read block by block;
// `first` is the number of the first record. Throws also the errors of the file.
std::shared_ptr<const Chunk> decode_records(const std::vector<ExampleStream>& streams,
                                            const ByteSource& file, std::uint64_t offset,
                                            std::uint64_t size, std::uint64_t first,
                                            bool verify_checksums, Ledger& ledger);

// The kinds of the features or lists `keys` in the first records that have values for them;
// kNone where no record has. Damaged records are skipped.
std::vector<FoundKind> find_kinds(const std::vector<std::string>& keys, const RecordRun& run,
                                  bool verify_checksums);

}  // namespace sweephand
