// The frames of a TFRecord file (https://www.tensorflow.org/tutorials/load_data/tfrecord).
//
//   | u64 length | u32 crc of the length | data: length bytes | u32 crc of the data |   a
//   record
//
// Numbers are little endian; the checksums are masked CRC32C.
#pragma once

#include "read/file.hpp"
#include "read/ledger.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kRecordHead = 12;
inline constexpr std::uint64_t kRecordTail = 4;

// Where every record of the file begins, and the last one ends. Reads little but the heads of
// large records, and checks only those. What stands behind the first damaged head cannot be
// found: it is one item for the ledger and the end of the index.
std::vector<std::uint64_t> index_records(const File& file, Ledger& ledger);

struct Record {
  std::span<const std::byte> data;
  bool is_whole = false;  // its checksum is right
};

// Takes the first record from `rest`, which an index says ends with a record. Throws DataError
// when the frame is damaged; the caller adds the place.
Record take_record(std::span<const std::byte>& rest);

}  // namespace sweephand
