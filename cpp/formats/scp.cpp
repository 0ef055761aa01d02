#include "formats/scp.hpp"

#include "base/error.hpp"
#include "formats/ctf_message.hpp"
#include "formats/text_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <unordered_map>
#include <utility>

namespace sweephand {
namespace {

constexpr std::int64_t kMostSegmentFrames = 4'294'967'296;

struct Range {
  std::int64_t first = 0;
  std::int64_t length = -1;
};

std::optional<std::int64_t> to_frame(std::string_view text) {
  const auto frame = to_number<std::int64_t>(text);
  return frame && *frame >= 0 && *frame < kMostSegmentFrames ? frame : std::nullopt;
}

// The range in brackets at the end of a path, which is removed from it; none if the brackets
// hold something else.
std::optional<Range> take_range(std::string_view& path) {
  if (path.empty() || path.back() != ']') return Range{};
  const std::size_t open = path.rfind('[');
  if (open == std::string_view::npos) return std::nullopt;
  const std::string_view inside = path.substr(open + 1, path.size() - open - 2);
  const std::size_t comma = std::min(inside.find(','), inside.size());
  const auto first = to_frame(inside.substr(0, comma));
  const auto last = to_frame(inside.substr(std::min(comma + 1, inside.size())));
  if (!first || !last || *last < *first) return std::nullopt;
  path = path.substr(0, open);
  return Range{.first = *first, .length = *last - *first + 1};
}

}  // namespace

std::string without_suffix(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t name = slash == std::string_view::npos ? 0 : slash + 1;
  const std::size_t dot = path.rfind('.');
  const bool has_suffix = dot != std::string_view::npos && dot > name;
  return std::string(has_suffix ? path.substr(0, dot) : path);
}

ScpEntries parse_scp(std::span<const char> text) {
  ScpEntries entries;
  std::unordered_map<std::string, std::int64_t> known;
  std::string_view rest = to_view(text);
  for (std::uint64_t number = 1; !rest.empty(); ++number) {
    const auto offset = static_cast<std::uint64_t>(rest.data() - text.data());
    const std::string_view line = trimmed(take_line(rest));
    if (line.empty()) continue;
    const std::size_t equals = line.find('=');
    const bool has_key = equals != std::string_view::npos;
    std::string_view path = has_key ? trimmed(line.substr(equals + 1)) : line;
    const auto range = has_key ? take_range(path) : Range{};
    if (!range || path.empty() || equals == 0) {
      throw DataError("the line " + quote(line) +
                          " names no frames: a line is PATH, or KEY=PATH[FIRST,LAST]",
                      {.offset = offset, .line = number});
    }
    const auto [found, is_new] =
        known.try_emplace(std::string(path), static_cast<std::int64_t>(entries.paths.size()));
    if (is_new) entries.paths.emplace_back(path);
    entries.keys.push_back(without_suffix(has_key ? trimmed(line.substr(0, equals)) : path));
    entries.numbers.push_back(found->second);
    entries.firsts.push_back(range->first);
    entries.lengths.push_back(range->length);
  }
  return entries;
}

}  // namespace sweephand
