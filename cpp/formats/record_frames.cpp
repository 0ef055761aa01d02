#include "formats/record_frames.hpp"

#include "base/error.hpp"
#include "base/little_endian.hpp"
#include "formats/crc32c.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>

namespace sweephand {
namespace {

bool has_right_length_crc(std::span<const std::byte> head) noexcept {
  return mask_crc(crc32c(head.first(8))) == load_le32(head.subspan(8));
}

// A guess at the cause of a head with a wrong checksum.
std::string_view suggest(std::span<const std::byte> head, bool is_first) {
  if (!is_first) return "the rest of the file cannot be read";
  if (head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b})
    return "the file looks like gzip: say compression=\"gzip\"";
  if (head[0] == std::byte{0x78}) return "the file looks like zlib: say compression=\"zlib\"";
  return "is it a TFRecord file?";
}

}  // namespace

void FrameFinder::fail(const std::string& reason) const {
  throw DataError(reason,
                  {.file = file_, .offset = offsets_.back(), .sequence = offsets_.size() - 1});
}

// The length in the head.
std::uint64_t FrameFinder::take_length() const {
  if (!has_right_length_crc(head_))
    fail("the checksum of the record's length is wrong; " +
         std::string(suggest(head_, offsets_.size() == 1)));
  return load_le64(head_);
}

void FrameFinder::feed(std::uint64_t offset, std::span<const std::byte> bytes) {
  while (wanted() - offset < bytes.size()) {
    const auto rest = bytes.subspan(wanted() - offset);
    const std::size_t count = std::min(rest.size(), head_.size() - head_size_);
    std::memcpy(head_.data() + head_size_, rest.data(), count);
    head_size_ += count;
    if (head_size_ < head_.size()) return;
    // A record with a false length ends beyond all bytes.
    constexpr auto kFarthest = std::numeric_limits<std::uint64_t>::max() - kRecordHead;
    const std::uint64_t room = kFarthest - offsets_.back() - kRecordFrame;
    const std::uint64_t end = offsets_.back() + kRecordFrame + std::min(take_length(), room);
    offsets_.push_back(end);
    head_size_ = 0;
  }
}

void FrameFinder::finish(std::uint64_t size) {
  if (wanted() == size && head_size_ == 0) return;
  const bool is_in_head = offsets_.back() <= size;
  if (!is_in_head) offsets_.pop_back();
  const std::uint64_t left = size - offsets_.back();
  if (is_in_head || left < kRecordFrame)
    fail("the file ends within a record's frame: " + std::to_string(left) +
         " bytes are left; it was cut, or is still being written");
  fail("the record has " + std::to_string(load_le64(head_)) +
       " bytes, but the file ends after " + std::to_string(left - kRecordFrame) +
       "; it was cut, or is still being written");
}

std::uint64_t FrameFinder::num_whole(std::uint64_t size) const noexcept {
  const auto after = std::upper_bound(offsets_.begin(), offsets_.end(), size);
  return static_cast<std::uint64_t>(after - offsets_.begin()) - 1;
}

Record take_record(std::span<const std::byte>& rest) {
  if (rest.size() < kRecordFrame || !has_right_length_crc(rest))
    throw DataError("the checksum of the record's length is wrong");
  const std::uint64_t length = load_le64(rest);
  if (length > rest.size() - kRecordFrame)
    throw StaleError("the record has " + std::to_string(length) +
                     " bytes, more than its index says; build the index again");
  const auto data = rest.subspan(kRecordHead, length);
  const std::uint32_t expected = load_le32(rest.subspan(kRecordHead + length));
  rest = rest.subspan(kRecordFrame + length);
  return {.data = data, .is_whole = mask_crc(crc32c(data)) == expected};
}

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
