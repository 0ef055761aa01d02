// The frames of a TFRecord file (https://www.tensorflow.org/tutorials/load_data/tfrecord).
//
//   | u64 length | u32 crc of the length | data: length bytes | u32 crc of the data |   a
//   record
//
// Numbers are little endian; the checksums are masked CRC32C.
#pragma once

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

}  // namespace sweephand
