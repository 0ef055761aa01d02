// The records of a part of a TFRecord file, read block by block: a block stays in the
// processor's cache while its records are decoded, and a chunk is never in memory twice.
//
//   | ... | record | record | record | ... |        the part of the file
//           consumed | held            |            the block, and padding behind it
#pragma once

#include "formats/record_frames.hpp"
#include "read/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace sweephand {

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
