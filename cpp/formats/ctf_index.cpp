#include "formats/ctf_index.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <utility>

namespace sweephand {

CtfStart find_start(const ByteSource& file, const CtfFormat& format) {
  std::array<char, 4> bytes{};
  const auto head = std::span(bytes).first(std::min<std::size_t>(file.size(), bytes.size()));
  file.read(0, std::as_writable_bytes(head));
  const std::string_view text(head.data(), head.size());
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
    throw DataError("the file is in UTF-16 or UTF-32; convert it to UTF-8",
                    {.file = file.path(), .offset = 0});
  const std::uint64_t begin = text.starts_with("\xef\xbb\xbf") ? 3 : 0;
  return {.offset = begin,
          .ignore_ids = format.skip_sequence_ids || text.substr(begin).starts_with('|')};
}

std::uint64_t find_part(const ByteSource& file, const CtfFormat& format, const CtfStart& start,
                        std::uint64_t offset) {
  if (offset <= start.offset) return start.offset;
  if (offset >= file.size()) return file.size();
  // From the byte before: a line that begins at `offset` counts.
  LineBlocks blocks(file, offset - 1, file.size(), format.max_line_bytes, kCtfPadding);
  std::optional<std::uint64_t> last_id;
  bool is_whole = false;  // the first line is not
  for (std::string_view lines = blocks.next(); !lines.empty(); lines = blocks.next()) {
    const char* text = lines.data();
    const char* const end = text + lines.size();
    for (; text < end; text = std::find(text, end, '\n') + 1) {
      const CtfId id = read_id(text);
      const bool begins = start.ignore_ids || (id.is_there && last_id && id.id != *last_id);
      if (is_whole && begins)
        return blocks.offset() + static_cast<std::uint64_t>(text - lines.data());
      if (is_whole && id.is_there) last_id = id.id;
      is_whole = true;
    }
  }
  return file.size();
}

namespace {

// Adds numbers, and `base` to each.
template <class T>
void add_all(std::vector<T>& to, const std::vector<T>& from, T base) {
  to.reserve(to.size() + from.size());
  for (const T value : from) to.push_back(base + value);
}

}  // namespace

CtfIndex index_part(const ByteSource& file, const CtfFormat& format, const CtfStart& start,
                    std::uint64_t begin, std::uint64_t end, std::uint64_t max_errors) {
  CtfIndex index{.ledger = Ledger(max_errors)};
  CtfScanner scanner(
      format, index.ledger,
      {.file = file.path(), .ignore_ids = start.ignore_ids, .keep_values = false});
  LineBlocks blocks(file, begin, end, format.max_line_bytes, kCtfPadding);
  for (std::string_view lines = blocks.next(); !lines.empty(); lines = blocks.next()) {
    scanner.scan(lines, blocks.offset());
    if (index.ledger.is_exhausted()) break;
  }
  scanner.finish();
  index.sequences = std::move(scanner.sequences());
  index.num_lines = scanner.num_lines();
  index.num_met = scanner.num_met();
  for (const auto& column : scanner.columns())
    index.num_indices.push_back(column->num_indices());
  index.is_single = scanner.is_single();
  return index;
}

void CtfIndex::append(const CtfIndex& part, const CtfStart& start) {
  const CtfSequences& more = part.sequences;
  add_all(sequences.skipped, more.skipped, std::uint64_t{sequences.keys.size()});
  add_all(sequences.keys, more.keys, start.ignore_ids ? num_lines : 0);
  add_all(sequences.offsets, more.offsets, std::uint64_t{0});
  add_all(sequences.lines, more.lines, num_lines);
  add_all(sequences.sizes, more.sizes, std::uint32_t{0});
  ledger.append(part.ledger, num_lines, start.ignore_ids);
  num_lines += part.num_lines;
  num_met.resize(part.num_met.size());
  num_indices.resize(part.num_indices.size());
  is_single.resize(part.is_single.size(), true);
  for (std::size_t i = 0; i < num_met.size(); ++i) {
    num_met[i] += part.num_met[i];
    num_indices[i] = std::max(num_indices[i], part.num_indices[i]);
    is_single[i] = is_single[i] && part.is_single[i];
  }
}

}  // namespace sweephand
