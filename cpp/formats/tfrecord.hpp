// Decodes records of TFRecord files that hold tf.train.Example messages, one sequence each.
#pragma once

#include "base/error.hpp"
#include "formats/example.hpp"
#include "formats/ledger.hpp"
#include "read/column.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// A run of records, one behind the other.
struct RecordRun {
  std::span<const std::byte> bytes;
  Place place;  // of the first one: file, offset, and its number as the sequence
};

// Decodes as many sequences as there are records. One whose data are damaged, or not what the
// streams say, has no samples in any stream, and is listed. Throws DataError when a frame is
// damaged, std::invalid_argument when the streams are contradictory.
// REQUIRES: kExamplePadding more bytes behind the run may be read
std::shared_ptr<const Chunk> decode_records(const std::vector<ExampleStream>& streams,
                                            const RecordRun& run, bool verify_checksums,
                                            Ledger& ledger);

// What the features `keys` hold in the first records that have values of them; kNone where no
// record has. Damaged records are passed over.
std::vector<FeatureKind> find_kinds(const std::vector<std::string>& keys,
                                    std::span<const std::byte> records, bool verify_checksums);

}  // namespace sweephand
