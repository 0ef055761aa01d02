#include "formats/line_blocks.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kBlockBytes = std::uint64_t{1} << 18;  // stays in the processor's cache

}  // namespace

LineBlocks::LineBlocks(const ByteSource& file, std::uint64_t begin, std::uint64_t end,
                       std::uint64_t max_line_bytes, std::uint64_t padding)
    : file_(file),
      end_(end),
      max_line_bytes_(max_line_bytes),
      padding_(padding),
      offset_(begin) {}

std::string_view LineBlocks::next() {
  // Bytes after the last whole line become the beginning of the next block.
  num_held_ -= num_given_;
  offset_ += num_given_;
  if (num_held_ > 0) std::memmove(buffer_.data(), buffer_.data() + num_given_, num_held_);
  num_given_ = 0;
  while (num_given_ == 0 && offset_ + num_held_ < end_) {
    if (num_held_ > max_line_bytes_)
      throw DataError("the line is longer than " + std::to_string(max_line_bytes_) + " bytes",
                      {.file = file_.path(), .offset = offset_});
    const std::uint64_t count = std::min(end_ - offset_ - num_held_, kBlockBytes);
    buffer_.resize(num_held_ + count + padding_);
    const auto added = std::span(buffer_).subspan(num_held_, count);
    file_.read(offset_ + num_held_, std::as_writable_bytes(added));
    const std::uint64_t line_feeds_end = std::string_view(added.data(), count).rfind('\n') + 1;
    if (line_feeds_end > 0) num_given_ = num_held_ + line_feeds_end;
    num_held_ += count;
  }
  if (num_given_ == 0) num_given_ = num_held_;
  std::fill_n(buffer_.begin() + static_cast<std::ptrdiff_t>(num_held_),
              std::min<std::uint64_t>(padding_, buffer_.size() - num_held_), '\n');
  return {buffer_.data(), num_given_};
}

}  // namespace sweephand
