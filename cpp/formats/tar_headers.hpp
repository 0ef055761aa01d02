// The headers of a tar archive (POSIX.1-2017, pax; GNU tar, "Basic Tar Format").
//
//   | header: 512 bytes | content, padded to 512 | header | content | ... | 1024 zeros |
//
//   header: name 0-99, size 124-135, checksum 148-155, type 156, magic 257-262, prefix 345-499
//
// A header of type 'x' (pax) or 'L' (GNU) has the long name of the next member as its content,
// and pax also a size of more than 12 digits.
#pragma once

#include "read/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// True if these are the first bytes of an archive with a member.
bool is_tar_header(std::span<const std::byte> head);

struct TarMember {
  std::string name;
  std::uint64_t begin = 0;   // of its first header
  std::uint64_t offset = 0;  // of its content
  std::uint64_t size = 0;
};

// Goes from header to header and skips the content between.
class TarWalk {
 public:
  // `source` must outlive this.
  explicit TarWalk(const ByteSource& source) : source_(source) {}

  // The next regular file; none at the end mark. Throws DataError where a header is damaged or
  // the archive is cut: later members cannot be found, and next must not be called again.
  std::optional<TarMember> next();

  // The first bytes of a member that was returned just now, `most` of them; valid until the
  // next one is asked for.
  std::span<const std::byte> head_of(const TarMember& member, std::uint64_t most);

  // Where the next header is looked for.
  std::uint64_t at() const noexcept { return at_; }

 private:
  struct Header;

  std::span<const std::byte> look(std::uint64_t offset, std::uint64_t size);
  std::optional<Header> read_header();
  std::uint64_t content_size(const Header& header) const;
  void take_about_next(const Header& header, std::uint64_t size);
  void take_pax(std::uint64_t begin, const std::string& records);
  void check_end();
  [[noreturn]] void fail(std::uint64_t offset, const std::string& reason) const;

  const ByteSource& source_;
  std::uint64_t at_ = 0;
  std::vector<std::byte> held_;  // the bytes that were read last
  std::uint64_t held_at_ = 0;
  std::string long_name_;  // of the next member, if it has one
  std::optional<std::uint64_t> long_size_;
};

}  // namespace sweephand
