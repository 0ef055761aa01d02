// The samples of a tar archive as WebDataset writes them: members that follow one another and
// share a key, which is the path up to the first dot of the base name; the rest is the field.
//
//   a/b.c/001.jpg  a/b.c/001.seg.png   ->   one sample, key a/b.c/001, fields jpg and seg.png
#pragma once

#include "read/byte_source.hpp"

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace sweephand {

// The headers of a tar archive (POSIX.1-2017, pax; GNU tar, "Basic Tar Format").
//
//   | header: 512 bytes | content, padded to 512 | header | content | ... | 1024 zeros |
//
//   header: name 0-99, size 124-135, checksum 148-155, type 156, magic 257-262, prefix 345-499
//
// A header of type 'x' (pax) or 'L' (GNU) has the long name of the next member as its content,
// and pax also a size of more than 12 digits.
//
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

// The places of the content of one field in every sample.
struct TarField {
  std::vector<std::uint64_t> offsets;  // 0 where a sample lacks it, as no content begins there
  std::vector<std::uint64_t> sizes;
  // The first bytes of each, if they were asked for, and where those of each sample begin.
  std::vector<std::uint8_t> heads;
  std::vector<std::uint64_t> head_starts;
};

// The fault of one sample, which does not affect later ones.
struct TarFault {
  std::uint64_t sample = 0;
  std::uint64_t offset = 0;
  std::string reason;
};

class TarSamples {
 public:
  // `heads` are fields whose first bytes are wanted, and how many.
  TarSamples(std::shared_ptr<const ByteSource> source,
             std::map<std::string, std::uint64_t> heads)
      : source_(std::move(source)), wanted_heads_(std::move(heads)), walk_(*source_) {}

  // Looks at the headers before `end`. Returns whether there are more. Throws as TarWalk does.
  bool walk(std::uint64_t end);

  std::uint64_t at() const noexcept { return walk_.at(); }
  const std::vector<std::string>& keys() const noexcept { return keys_; }

  // Where each sample begins.
  const std::vector<std::uint64_t>& begins() const noexcept { return begins_; }

  const std::vector<TarFault>& faults() const noexcept { return faults_; }

  // The fields that there are, in the order of their appearance.
  std::vector<std::string> fields() const;

  // Of a field that there may be.
  TarField field(const std::string& name) const;

 private:
  struct Member {
    std::uint64_t sample;
    std::uint32_t field;
    std::uint64_t offset;
    std::uint64_t size;
    std::uint64_t head;  // where its first bytes begin in `heads_`
    std::uint64_t head_size;
  };

  void add(const TarMember& member);

  std::shared_ptr<const ByteSource> source_;
  std::map<std::string, std::uint64_t> wanted_heads_;
  TarWalk walk_;
  std::vector<std::string> keys_;
  std::vector<std::uint64_t> begins_;
  std::vector<Member> members_;
  std::vector<std::uint8_t> heads_;
  std::vector<TarFault> faults_;
  std::map<std::string, std::uint32_t> numbers_;                  // of fields
  std::unordered_map<std::string, std::uint64_t> first_samples_;  // by key
  std::vector<std::uint64_t> last_samples_;  // of a field: one more than the last that has it
};

}  // namespace sweephand
