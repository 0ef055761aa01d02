// The frames of a TFRecord file (https://www.tensorflow.org/tutorials/load_data/tfrecord).
//
//   | u64 length | u32 crc of the length | data: length bytes | u32 crc of the data |   a
//   record
//
// Numbers are little endian; the checksums are masked CRC32C.
#pragma once

#include "read/byte_source.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kRecordHead = 12;
inline constexpr std::uint64_t kRecordTail = 4;
inline constexpr std::uint64_t kRecordFrame = kRecordHead + kRecordTail;

// Finds the begins of records, in bytes that come piece by piece. Only heads are read: bytes
// before the next one may be left out.
class FrameFinder {
 public:
  // `file` is for errors.
  explicit FrameFinder(std::string file) : file_(std::move(file)) {}

  // Looks at the bytes from `offset` on. Throws DataError when the head of a record is damaged:
  // later records cannot be found, and nothing must be fed any more. REQUIRES: offset is not
  // beyond the needed bytes
  void feed(std::uint64_t offset, std::span<const std::byte> bytes);

  // Says that all has `size` bytes. Throws DataError when it ends within a record, which is
  // then not counted.
  void finish(std::uint64_t size);

  // The first byte that is wanted next.
  std::uint64_t wanted() const noexcept { return offsets_.back() + head_size_; }

  // How many records end within the first `size` bytes.
  std::uint64_t num_whole(std::uint64_t size) const noexcept;

  // Where a record begins; of the number of records, where the last one ends.
  // Throws std::out_of_range.
  std::uint64_t offset_of(std::uint64_t record) const { return offsets_.at(record); }

  // Where every record begins, and the last one ends.
  const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }

 private:
  [[noreturn]] void fail(const std::string& reason) const;
  std::uint64_t take_length() const;

  std::string file_;
  std::vector<std::uint64_t> offsets_{0};
  std::array<std::byte, kRecordHead> head_{};  // of the record at offsets_.back()
  std::size_t head_size_ = 0;                  // bytes of it that have come
};

struct Record {
  std::span<const std::byte> data;
  bool is_whole = false;  // its checksum is right
};

// Takes the first record from `rest`, which an index says ends with a record. Throws DataError
// when the frame is damaged; the caller adds the place.
Record take_record(std::span<const std::byte>& rest);

// The records of a part of a TFRecord file, read block by block: a block stays in the
// processor's cache while its records are decoded, and a chunk is never in memory twice.
//
//   | ... | record | record | record | ... |        the part of the file
//           consumed | held            |            the block, and padding behind it
class RecordBlocks {
 public:
  // Of the `size` bytes from `offset` on, which by an index are whole records. `padding` more
  // bytes may be read after every record. A block has `block_bytes`, or those of one record.
  // `source` must outlive the blocks.
  RecordBlocks(const ByteSource& source, std::uint64_t offset, std::uint64_t size,
               std::uint64_t padding, std::uint64_t block_bytes = std::uint64_t{1} << 18)
      : source_(source),
        offset_(offset),
        size_(size),
        padding_(padding),
        block_bytes_(block_bytes) {}

  std::uint64_t size() const noexcept { return size_; }
  std::uint64_t consumed() const noexcept { return consumed_; }  // bytes before the next record
  bool is_done() const noexcept { return consumed_ == size_; }

  // Reads the data for take(). Throws the errors of the source.
  void prepare();

  // The next record, valid until prepare(). Throws as take_record does. REQUIRES: prepared
  Record take();

 private:
  void hold(std::uint64_t size);

  const ByteSource& source_;
  std::uint64_t offset_;
  std::uint64_t size_;
  std::uint64_t padding_;
  std::uint64_t block_bytes_;
  std::uint64_t consumed_ = 0;
  std::vector<std::byte> buffer_;
  std::size_t begin_ = 0;  // of what is held, in the buffer
  std::size_t end_ = 0;
};

}  // namespace sweephand
