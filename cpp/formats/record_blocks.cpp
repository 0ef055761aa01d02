#include "formats/record_blocks.hpp"

#include "base/little_endian.hpp"

#include <algorithm>
#include <cstring>
#include <span>

namespace sweephand {
void RecordBlocks::prepare() {
  hold(std::min(kRecordFrame, size_ - consumed_));
  if (end_ - begin_ < kRecordFrame) return;
  const std::uint64_t length = load_le64(std::span(buffer_).subspan(begin_));
  // A record with a false length ends with the part.
  hold(kRecordFrame + std::min(length, size_ - consumed_ - kRecordFrame));
}

Record RecordBlocks::take() {
  std::span<const std::byte> rest = std::span(buffer_).subspan(begin_, end_ - begin_);
  const std::size_t before = rest.size();
  const Record record = take_record(rest);
  begin_ += before - rest.size();
  consumed_ += before - rest.size();
  return record;
}

// Reads ahead until the buffer has this many bytes. REQUIRES: they are in the part
void RecordBlocks::hold(std::uint64_t size) {
  const std::size_t held = end_ - begin_;
  if (size <= held) return;
  if (held > 0) std::memmove(buffer_.data(), buffer_.data() + begin_, held);
  begin_ = 0;
  end_ = held;
  const std::uint64_t wanted = std::min(size_ - consumed_, std::max(size, block_bytes_));
  if (buffer_.size() < wanted + padding_) buffer_.resize(wanted + padding_);
  source_.read(offset_ + consumed_ + held, std::span(buffer_).subspan(held, wanted - held));
  end_ = wanted;
}

}  // namespace sweephand
