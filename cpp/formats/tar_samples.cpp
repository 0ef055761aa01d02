#include "formats/tar_samples.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <numeric>
#include <string_view>
#include <system_error>

namespace sweephand {
namespace {

constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kLookBytes = 4096;      // small members need no call of their own
constexpr std::uint64_t kMostText = 1 << 20;    // of a long name or of pax records
constexpr std::uint64_t kMostBehind = 1 << 20;  // zeros after the end that are checked
constexpr std::size_t kChecksum = 148;

std::uint64_t to_byte(std::byte one) { return std::to_integer<std::uint64_t>(one); }

// The text of a field, which ends at a zero if it is shorter.
std::string_view text_of(std::span<const std::byte> block, std::size_t begin,
                         std::size_t size) {
  const std::string_view all(reinterpret_cast<const char*>(block.data()) + begin, size);
  return all.substr(0, all.find('\0'));
}

// The integer that a text is, if it is one and nothing else.
std::optional<std::uint64_t> to_number(std::string_view text, int base = 10) {
  std::uint64_t value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// A number in octal digits, or in base 256 where the top bit is set; none if it is no number.
std::optional<std::uint64_t> number_of(std::span<const std::byte> field) {
  if (field.empty()) return std::nullopt;
  if (field[0] == std::byte{0x80}) {
    std::uint64_t value = 0;
    for (const std::byte digit : field.subspan(1)) {
      if (value >> 56 != 0) return std::nullopt;
      value = value << 8 | to_byte(digit);
    }
    return value;
  }
  std::string_view digits(reinterpret_cast<const char*>(field.data()), field.size());
  digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
  digits = digits.substr(0, digits.find_first_of(std::string_view("\0 ", 2)));
  if (digits.empty()) return 0;
  return to_number(digits, 8);
}

// Both checksums in use: of unsigned and of signed bytes.
bool has_its_checksum(std::span<const std::byte> block) {
  const auto stored = number_of(block.subspan(kChecksum, 8));
  std::uint64_t sum = 8 * static_cast<std::uint64_t>(' ');
  std::uint64_t high = 0;  // bytes that are negative as signed ones
  for (std::size_t i = 0; i < kBlock; ++i) {
    if (i >= kChecksum && i < kChecksum + 8) continue;
    sum += to_byte(block[i]);
    high += to_byte(block[i]) >> 7;
  }
  return stored && (*stored == sum || *stored + 256 * high == sum);
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
}

std::uint64_t padded(std::uint64_t size) { return (size + kBlock - 1) / kBlock * kBlock; }

std::string lower(std::string_view text) {
  std::string result(text);
  for (char& letter : result) {
    if ('A' <= letter && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
  }
  return result;
}

// Notes of writers, as __index__.
bool is_note(std::string_view name) {
  return name.find('/') == std::string_view::npos && name.starts_with("__") &&
         name.ends_with("__");
}

}  // namespace

bool is_tar_header(std::span<const std::byte> head) {
  return head.size() >= kBlock && head[0] != std::byte{0} &&
         has_its_checksum(head.first(kBlock));
}

struct TarWalk::Header {
  explicit Header(std::span<const std::byte> block)
      : name(text_of(block, 0, 100)),
        type(std::to_integer<char>(block[156])),
        size(number_of(block.subspan(124, 12))) {
    // GNU's magic continues with blanks, and its header has other fields in place of a prefix.
    const bool is_posix = text_of(block, 257, 6) == "ustar";
    if (const auto prefix = text_of(block, 345, 155); is_posix && !prefix.empty())
      name = std::string(prefix) + "/" + name;
  }

  bool is_one_of(std::string_view types) const {
    return types.find(type) != std::string_view::npos;
  }

  bool is_regular() const { return is_one_of({"07\0", 3}); }

  // It describes the next member.
  bool is_about_next() const { return is_one_of("xL"); }

  // It is no member.
  bool is_about_others() const { return is_one_of("xLKg"); }

  // Links, devices and folders have no content, whatever their size says.
  bool has_content() const { return !is_one_of("123456"); }

  std::string name;
  char type;
  std::optional<std::uint64_t> size;
};

// The next header; none at the end mark.
std::optional<TarWalk::Header> TarWalk::read_header() {
  if (at_ == source_.size())
    fail(at_, "the archive ends without its end mark of zeros; it was cut, or not closed");
  const auto block = look(at_, kBlock);
  if (is_zero(block)) {
    check_end();
    return std::nullopt;
  }
  if (!has_its_checksum(block)) fail(at_, "the header of a member has a wrong checksum");
  return Header(block);
}

// The size of the content after the header, which must be within the file.
std::uint64_t TarWalk::content_size(const Header& header) const {
  if (!header.size) fail(at_, "the size of a member is no number");
  std::uint64_t size = header.has_content() ? header.size.value_or(0) : 0;
  if (!header.is_about_next()) size = long_size_.value_or(size);
  if (size > source_.size() - at_ - kBlock)
    fail(at_, "the content of a member reaches beyond the end of the file; it was cut");
  return size;
}

std::optional<TarMember> TarWalk::next() {
  std::uint64_t begin = at_;
  while (true) {
    const std::optional<Header> header = read_header();
    if (!header) return std::nullopt;
    const std::uint64_t content = at_ + kBlock;
    const std::uint64_t size = content_size(*header);
    if (header->is_about_next()) take_about_next(*header, size);
    if (header->type == 'S')
      fail(at_, "a member is sparse; write the archive without --sparse");
    at_ = std::min(content + padded(size), source_.size());
    if (header->is_about_others()) continue;
    std::string name = long_name_.empty() ? header->name : long_name_;
    long_name_.clear();
    long_size_.reset();
    if (header->is_regular() && !name.ends_with('/'))
      return TarMember{std::move(name), begin, content, size};
    begin = at_;
  }
}

std::span<const std::byte> TarWalk::head_of(const TarMember& member, std::uint64_t most) {
  return look(member.offset, std::min(member.size, most));
}

// Bytes of the archive, valid until more are looked at.
std::span<const std::byte> TarWalk::look(std::uint64_t offset, std::uint64_t size) {
  if (size > source_.size() - offset) fail(offset, "the archive is cut within a header");
  const std::uint64_t inside = offset - held_at_;
  if (offset < held_at_ || inside > held_.size() || size > held_.size() - inside) {
    held_.resize(std::min(std::max(size, kLookBytes), source_.size() - offset));
    source_.read(offset, held_);
    held_at_ = offset;
  }
  return std::span(held_).subspan(offset - held_at_, size);
}

// Applies the content of an extended header to the next member.
void TarWalk::take_about_next(const Header& header, std::uint64_t size) {
  if (size > kMostText) fail(at_, "the name of a member has more than a MiB");
  const auto bytes = look(at_ + kBlock, size);
  if (header.type == 'L') {
    long_name_ = text_of(bytes, 0, bytes.size());
  } else {
    take_pax(at_, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  }
}

// Records "LENGTH KEY=VALUE\n", whose length counts all of them.
void TarWalk::take_pax(std::uint64_t begin, const std::string& records) {
  std::string_view rest = records;
  while (!rest.empty()) {
    std::uint64_t length = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), length);
    const auto digits = static_cast<std::size_t>(end - rest.data());
    if (error != std::errc() || length > rest.size() || length < digits + 3 ||
        rest[digits] != ' ' || rest[length - 1] != '\n')
      fail(begin, "the pax records of a member are damaged");
    const std::string_view record = rest.substr(digits + 1, length - digits - 2);
    const auto equals = record.find('=');
    if (equals == std::string_view::npos) fail(begin, "a pax record of a member has no value");
    const std::string_view key = record.substr(0, equals);
    const std::string_view value = record.substr(equals + 1);
    if (key.starts_with("GNU.sparse"))
      fail(begin, "a member is sparse; write the archive without --sparse");
    if (key == "path") long_name_ = value;
    if (key == "size") {
      long_size_ = to_number(value);
      if (!long_size_) fail(begin, "the size in the pax records of a member is no number");
    }
    rest.remove_prefix(length);
  }
}

// Refuses data after the end mark, as of concatenated archives.
void TarWalk::check_end() {
  const std::uint64_t end = std::min(source_.size(), at_ + kMostBehind);
  // By blocks: what is held is not read again, by which a stream would go back.
  for (std::uint64_t offset = at_; offset < end; offset += kBlock) {
    if (!is_zero(look(offset, std::min(kBlock, end - offset))))
      fail(offset,
           "there are bytes behind the end mark; were archives put one behind the "
           "other? unpack them with 'tar -i' and write one");
  }
}

void TarWalk::fail(std::uint64_t offset, const std::string& reason) const {
  throw DataError(reason, {.file = source_.path(), .offset = offset});
}

bool TarSamples::walk(std::uint64_t end) {
  while (walk_.at() < end) {
    const auto member = walk_.next();
    if (!member) return false;
    add(*member);
  }
  return true;
}

void TarSamples::add(const TarMember& member) {
  const std::string_view name = member.name;
  const std::size_t base = name.rfind('/') + 1;  // 0 where there is no folder
  const std::size_t dot = name.find('.', base);
  const bool is_of_none = dot == std::string_view::npos || dot == base;
  if (is_of_none || dot + 1 == name.size() || is_note(name)) return;
  const std::string_view key = name.substr(0, dot);
  if (keys_.empty() || keys_.back() != key) {
    const std::uint64_t number = keys_.size();
    keys_.emplace_back(key);
    begins_.push_back(member.begin);
    const auto [known, is_new] = first_samples_.try_emplace(keys_.back(), number);
    if (!is_new)
      faults_.push_back({number, member.begin,
                         "the key '" + keys_.back() + "' was there before, at byte " +
                             std::to_string(begins_[known->second]) +
                             ": members of a sample lie side by side; sort them, as "
                             "'tar --sort=name' does"});
  }
  const std::uint64_t sample = keys_.size() - 1;
  const auto next = static_cast<std::uint32_t>(numbers_.size());
  const auto [found, is_new] = numbers_.try_emplace(lower(name.substr(dot + 1)), next);
  if (is_new) last_samples_.push_back(0);
  std::uint64_t& last = last_samples_[found->second];
  if (last == sample + 1) {
    faults_.push_back(
        {sample, member.begin,
         "the sample '" + keys_.back() + "' has the member '" + found->first + "' twice"});
    return;
  }
  last = sample + 1;
  const std::uint64_t begin = heads_.size();
  if (const auto wanted = wanted_heads_.find(found->first); wanted != wanted_heads_.end()) {
    for (const std::byte one : walk_.head_of(member, wanted->second))
      heads_.push_back(std::to_integer<std::uint8_t>(one));
  }
  members_.push_back(
      {sample, found->second, member.offset, member.size, begin, heads_.size() - begin});
}

std::vector<std::string> TarSamples::fields() const {
  std::vector<std::string> names(numbers_.size());
  for (const auto& [name, number] : numbers_) names[number] = name;
  return names;
}

TarField TarSamples::field(const std::string& name) const {
  TarField result{.offsets = std::vector<std::uint64_t>(keys_.size()),
                  .sizes = std::vector<std::uint64_t>(keys_.size()),
                  .heads = {},
                  .head_starts = std::vector<std::uint64_t>(keys_.size() + 1)};
  const auto found = numbers_.find(name);
  if (found == numbers_.end()) return result;
  for (const Member& member : members_) {
    if (member.field != found->second) continue;
    result.offsets[member.sample] = member.offset;
    result.sizes[member.sample] = member.size;
    result.head_starts[member.sample + 1] = member.head_size;
    const auto* const head = heads_.data() + member.head;
    result.heads.insert(result.heads.end(), head, head + member.head_size);
  }
  std::partial_sum(result.head_starts.begin(), result.head_starts.end(),
                   result.head_starts.begin());
  return result;
}

}  // namespace sweephand
