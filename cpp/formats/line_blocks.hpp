// A part of a text file, block by block, each a run of whole lines.
#pragma once

#include "read/byte_source.hpp"

#include <cstdint>
#include <string_view>
#include <vector>

namespace sweephand {

class LineBlocks {
 public:
  // A line that continues beyond `end` is cut there. `padding` line feeds may be read after
  // every block. `file` must outlive the blocks.
  LineBlocks(const ByteSource& file, std::uint64_t begin, std::uint64_t end,
             std::uint64_t max_line_bytes, std::uint64_t padding);

  // The next lines, valid until the next call; empty at the end. Only the last line may lack
  // its line feed. Throws DataError when a line is longer than allowed.
  std::string_view next();

  // Of the lines that next() returned last, in the file.
  std::uint64_t offset() const noexcept { return offset_; }

 private:
  const ByteSource& file_;
  std::uint64_t end_;
  std::uint64_t max_line_bytes_;
  std::uint64_t padding_;
  std::uint64_t offset_;         // of buffer_[0] in the file
  std::uint64_t num_given_ = 0;  // bytes of the buffer that next() returned last
  std::uint64_t num_held_ = 0;   // bytes of the buffer that were read
  std::vector<char> buffer_;
};

}  // namespace sweephand
