// CNTK's text format: no input makes the scanner do anything but report; the pass without
// values and the pass over any cut into chunks see the same, and so does an index made in
// parts.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/ctf.hpp"
#include "formats/ctf_index.hpp"
#include "formats/ctf_scanner.hpp"
#include "formats/ledger.hpp"
#include "read/byte_source.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

void check_column(const CtfColumn& column, std::uint64_t num_sequences) {
  const Column found = column.borrow();
  CHECK(std::ranges::is_sorted(std::span(found.sample_offsets, num_sequences + 1)));
  CHECK(std::cmp_equal(found.sample_offsets[num_sequences], column.num_samples()));
  if (found.element_offsets == nullptr) return;
  const std::span ends(found.element_offsets, column.num_samples() + 1);
  CHECK(std::ranges::is_sorted(ends));
  CHECK(std::cmp_equal(ends.back(), column.num_values()));
}

struct Totals {
  std::uint64_t num_items = 0;
  std::uint64_t num_values = 0;
};

// Scans the chunk of sequences [first, last) alone, which must have the sizes of the index.
Totals scan_chunk(const CtfFormat& format, bool ignore_ids, std::string_view text,
                  const CtfSequences& sequences, std::uint64_t first, std::uint64_t last) {
  const std::uint64_t begin = sequences.offsets[first];
  const std::uint64_t end =
      last < sequences.offsets.size() ? sequences.offsets[last] : text.size();
  std::string padded(text.substr(begin, end - begin));
  padded.append(kCtfPadding, '\n');
  const auto scan = [&](CtfScanner& scanner) {
    scanner.scan({padded.data(), end - begin}, begin);
    scanner.finish();
    CHECK(scanner.num_sequences() == last - first);
  };
  const CtfScanner::Options options{.ignore_ids = ignore_ids,
                                    .first_line = sequences.lines[first]};
  Ledger ledger(kNoLimit);
  CtfScanner scanner(format, ledger, options);
  scan(scanner);
  auto of_table = options;
  of_table.keep_values = false;
  Ledger again(kNoLimit);
  CtfScanner table(format, again, of_table);
  scan(table);
  const auto expected = std::span(sequences.sizes).subspan(first, last - first);
  CHECK(std::ranges::equal(table.sequences().sizes, expected));
  CHECK(std::ranges::equal(table.sequences().skipped, scanner.sequences().skipped));
  Totals totals{.num_items = ledger.num_items()};
  for (const auto& column : scanner.columns()) {
    check_column(*column, expected.size());
    totals.num_values += column->num_values();
  }
  return totals;
}

CtfFormat make_format(std::uint64_t choice) {
  return {.streams = {{.field = "A", .dimension = 1 + choice % 3},
                      {.field = "B",
                       .dimension = 10,
                       .is_sparse = true,
                       .defines_mb_size = choice % 5 == 0},
                      {.field = "C",
                       .dimension = 2,
                       .is_sparse = choice % 7 == 0,
                       .type = ElementType::kInt16}},
          .skip_sequence_ids = choice % 11 < 2,
          .allow_blank_lines = choice % 13 < 6,
          .allow_nonfinite = choice % 17 < 3};
}

void check_same(const CtfSequences& joined, const CtfSequences& whole) {
  CHECK(joined.keys == whole.keys);
  CHECK(joined.offsets == whole.offsets);
  CHECK(joined.lines == whole.lines);
  CHECK(joined.sizes == whole.sizes);
  CHECK(joined.skipped == whole.skipped);
}

void check_same(const CtfIndex& joined, const CtfIndex& whole) {
  check_same(joined.sequences, whole.sequences);
  CHECK(joined.num_lines == whole.num_lines);
  if (whole.num_lines > 0) CHECK(joined.num_met == whole.num_met);
  CHECK(joined.ledger.num_items() == whole.ledger.num_items());
}

// The index of a file cut into parts near `cut`, which is that of the file as a whole.
void check_index(const CtfFormat& format, Input input, std::uint64_t cut) {
  const HeldBytes file("fuzz", 0, input);
  try {
    const CtfStart start = find_start(file, format);
    CtfIndex whole{.ledger = Ledger(kNoLimit)};
    whole.append(index_part(file, format, start, start.offset, file.size(), kNoLimit), start);
    CtfIndex joined{.ledger = Ledger(kNoLimit)};
    std::uint64_t begin = start.offset;
    for (std::uint64_t near = cut; begin < file.size(); near += cut) {
      const std::uint64_t end = find_part(file, format, start, near);
      CHECK(begin <= end);
      CHECK(end <= file.size());
      joined.append(index_part(file, format, start, begin, end, kNoLimit), start);
      begin = end;
    }
    check_same(joined, whole);
  } catch (const DataError&) {  // NOLINT(bugprone-empty-catch)
    // What no budget allows.
  }
}

CtfChunks chunks_of(const CtfSequences& sequences, std::uint64_t size,
                    std::uint64_t most_bytes) {
  const std::array starts{std::int64_t{0}, static_cast<std::int64_t>(sequences.offsets.size())};
  constexpr std::array<std::int64_t, 2> kNoItems{0, 0};
  const CtfPlaces places{.offsets = sequences.offsets,
                         .lines = sequences.lines,
                         .starts = starts,
                         .sizes = {&size, 1},
                         .item_offsets = {},
                         .item_starts = kNoItems};
  return {places, most_bytes, {std::nullopt}};
}

void run(Input input) {
  std::uint64_t choice = input.size();
  for (const std::byte byte : input)
    choice = choice * 31 + std::to_integer<std::uint64_t>(byte);
  const CtfFormat format = make_format(choice);
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  const bool ignore_ids = format.skip_sequence_ids || text.starts_with('|');
  check_index(format, input, 1 + input.size() / (1 + choice % 4));

  Ledger ledger(kNoLimit);
  CtfScanner index(format, ledger, {.ignore_ids = ignore_ids, .keep_values = false});
  const std::string padded = text + std::string(kCtfPadding, '\n');
  try {
    index.scan({padded.data(), text.size()}, 0);
  } catch (const DataError&) {
    return;
  }
  index.finish();
  const CtfSequences& sequences = index.sequences();
  for (const std::uint32_t size : sequences.sizes) CHECK(size > 0);

  Totals totals;
  const CtfChunks chunks = chunks_of(sequences, text.size(), 1 + choice % 200);
  for (std::uint64_t i = 0; i < chunks.sequences().num_counts(); ++i) {
    const auto [first, end] = chunks.sequences().bounds(i);
    CHECK(chunks.of(i).size() == 1);
    const Totals chunk = scan_chunk(format, ignore_ids, text, sequences, first, end);
    totals.num_items += chunk.num_items;
    totals.num_values += chunk.num_values;
  }
  // Blank lines before the first sequence are in no chunk.
  const bool begins_at_once = !sequences.offsets.empty() && sequences.offsets.front() == 0;
  CHECK(totals.num_items <= ledger.num_items());
  if (begins_at_once) CHECK(totals.num_items == ledger.num_items());
  CHECK(totals.num_values <= text.size() * 3);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
