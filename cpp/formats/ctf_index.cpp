#include "formats/ctf_index.hpp"

#include "base/error.hpp"
#include "formats/line_blocks.hpp"

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
  index.num_samples = scanner.num_samples();
  index.num_met = scanner.num_met();
  for (const auto& column : scanner.columns())
    index.num_indices.push_back(column->num_indices());
  index.is_single = scanner.is_single();
  index.undeclared = {scanner.undeclared().begin(), scanner.undeclared().end()};
  return index;
}

void CtfIndex::append(const CtfIndex& part, const CtfStart& start) {
  const auto add = [](auto& all, const auto& more, std::uint64_t base) {
    for (const auto value : more) all.push_back(value + base);
  };
  const std::uint64_t first = sequences.keys.size();
  add(sequences.keys, part.sequences.keys, start.ignore_ids ? num_lines : 0);
  add(sequences.offsets, part.sequences.offsets, 0);
  add(sequences.lines, part.sequences.lines, num_lines);
  add(sequences.skipped, part.sequences.skipped, first);
  sequences.sizes.insert(sequences.sizes.end(), part.sequences.sizes.begin(),
                         part.sequences.sizes.end());
  ledger.append(part.ledger, num_lines, start.ignore_ids);
  num_lines += part.num_lines;
  num_samples += part.num_samples;
  num_met.resize(part.num_met.size());
  num_indices.resize(part.num_indices.size());
  is_single.resize(part.is_single.size(), true);
  for (std::size_t i = 0; i < num_met.size(); ++i) {
    num_met[i] += part.num_met[i];
    num_indices[i] = std::max(num_indices[i], part.num_indices[i]);
    is_single[i] = is_single[i] && part.is_single[i];
  }
  for (const auto& [name, count] : part.undeclared) undeclared[name] += count;
}

std::vector<std::uint64_t> cut_chunks(std::span<const std::uint64_t> offsets, std::uint64_t end,
                                      std::uint64_t chunk_bytes) {
  std::vector<std::uint64_t> firsts;
  std::uint64_t chunk_begin = 0;
  for (std::uint64_t i = 0; i < offsets.size(); ++i) {
    const std::uint64_t sequence_end = i + 1 < offsets.size() ? offsets[i + 1] : end;
    if (!firsts.empty() && sequence_end - chunk_begin <= chunk_bytes) continue;
    firsts.push_back(i);
    chunk_begin = offsets[i];
  }
  return firsts;
}

}  // namespace sweephand
