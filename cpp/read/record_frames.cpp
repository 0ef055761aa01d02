#include "read/record_frames.hpp"

#include "base/error.hpp"
#include "base/little_endian.hpp"
#include "read/crc32c.hpp"

#include <algorithm>
#include <string>
#include <string_view>

namespace sweephand {
namespace {

// Reads small pieces of a file that come one after the other.
class Window {
 public:
  explicit Window(const File& file) : file_(file), bytes_(std::min(file.size(), kBytes)) {}

  // REQUIRES: offset + size <= file.size(), size <= kBytes
  std::span<const std::byte> read(std::uint64_t offset, std::uint64_t size) {
    if (offset < begin_ || offset - begin_ > held_ || size > held_ - (offset - begin_)) {
      begin_ = offset;
      held_ = std::min<std::uint64_t>(bytes_.size(), file_.size() - offset);
      file_.read(offset, std::span(bytes_).first(held_));
    }
    return std::span<const std::byte>(bytes_).subspan(offset - begin_, size);
  }

 private:
  static constexpr std::uint64_t kBytes = std::uint64_t{1} << 16;

  const File& file_;
  std::vector<std::byte> bytes_;
  std::uint64_t begin_ = 0;  // of what is held, in the file
  std::uint64_t held_ = 0;
};

bool has_right_length_crc(std::span<const std::byte> head) noexcept {
  return mask_crc(crc32c(head.first(8))) == load_le32(head.subspan(8));
}

// What a head without its checksum may be.
std::string_view suggest(std::span<const std::byte> head, bool is_first) {
  if (!is_first) return "the rest of the file cannot be read";
  if (head[0] == std::byte{0x1f} && head[1] == std::byte{0x8b})
    return "the file looks like gzip: say compression=\"gzip\"";
  if (head[0] == std::byte{0x78}) return "the file looks like zlib: say compression=\"zlib\"";
  return "is it a TFRecord file?";
}

// What is wrong with the head of a record that has `left` bytes from its beginning to the end
// of the file; empty if nothing is.
std::string find_fault(std::span<const std::byte> head, std::uint64_t left, bool is_first) {
  if (left < kRecordHead + kRecordTail)
    return "the file ends within a record's frame: " + std::to_string(left) +
           " bytes are left; it was cut, or is still being written";
  if (!has_right_length_crc(head))
    return "the checksum of the record's length is wrong; " +
           std::string(suggest(head, is_first));
  const std::uint64_t length = load_le64(head);
  const std::uint64_t room = left - kRecordHead - kRecordTail;
  if (length > room)
    return "the record has " + std::to_string(length) + " bytes, but the file ends after " +
           std::to_string(room) + "; it was cut, or is still being written";
  return {};
}

}  // namespace

std::vector<std::uint64_t> index_records(const File& file, Ledger& ledger) {
  Window window(file);
  std::vector<std::uint64_t> offsets{0};
  while (offsets.back() < file.size()) {
    const std::uint64_t offset = offsets.back();
    const std::uint64_t left = file.size() - offset;
    const auto head = window.read(offset, std::min(left, kRecordHead));
    std::string fault = find_fault(head, left, offset == 0);
    if (!fault.empty()) {
      ledger.add(
          {.reason = std::move(fault),
           .place = {.file = file.path(), .offset = offset, .sequence = offsets.size() - 1}});
      break;
    }
    offsets.push_back(offset + kRecordHead + load_le64(head) + kRecordTail);
  }
  return offsets;
}

Record take_record(std::span<const std::byte>& rest) {
  if (rest.size() < kRecordHead + kRecordTail || !has_right_length_crc(rest))
    throw DataError("the checksum of the record's length is wrong");
  const std::uint64_t length = load_le64(rest);
  if (length > rest.size() - kRecordHead - kRecordTail)
    throw StaleError("the record has " + std::to_string(length) +
                     " bytes, more than its index says; build the index again");
  const auto data = rest.subspan(kRecordHead, length);
  const std::uint32_t expected = load_le32(rest.subspan(kRecordHead + length));
  rest = rest.subspan(kRecordHead + length + kRecordTail);
  return {.data = data, .is_whole = mask_crc(crc32c(data)) == expected};
}

}  // namespace sweephand
