// CNTK's text format: no input makes the scanner do anything but report; the pass without
// values and the pass over any cut into chunks see the same.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "read/ctf_index.hpp"
#include "read/ctf_scanner.hpp"
#include "read/ledger.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>

namespace sweephand {
namespace {

constexpr std::uint64_t kNoLimit = std::numeric_limits<std::uint64_t>::max();

void check_columns(CtfScanner& scanner) {
  const std::uint64_t num_sequences = scanner.sequences().keys.size();
  for (const auto& column : scanner.columns()) {
    const Column found = column->borrow();
    const auto num_samples = static_cast<std::int64_t>(column->num_samples());
    CHECK(std::ranges::is_sorted(std::span(found.sample_offsets, num_sequences + 1)));
    CHECK(found.sample_offsets[num_sequences] == num_samples);
    if (found.element_offsets == nullptr) continue;
    const std::span ends(found.element_offsets, column->num_samples() + 1);
    CHECK(std::ranges::is_sorted(ends));
    CHECK(ends.back() == static_cast<std::int64_t>(column->num_values()));
  }
  for (const std::uint32_t size : scanner.sequences().sizes) CHECK(size > 0);
}

void run(Input input) {
  std::uint64_t choice = input.size();
  for (const std::byte byte : input)
    choice = choice * 31 + std::to_integer<std::uint64_t>(byte);
  const CtfFormat format{.streams = {{.field = "A", .dimension = 1 + choice % 3},
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
  std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  const bool ignore_ids = format.skip_sequence_ids || text.starts_with('|');

  Ledger ledger(kNoLimit);
  CtfScanner index(format, ledger, {.ignore_ids = ignore_ids, .keep_values = false});
  std::string padded = text + std::string(kCtfPadding, '\n');
  try {
    index.scan({padded.data(), text.size()}, 0);
  } catch (const DataError&) {
    return;
  }
  index.finish();
  const auto& offsets = index.sequences().offsets;

  std::uint64_t num_items = 0;
  std::uint64_t num_values = 0;
  const auto firsts = cut_chunks(offsets, text.size(), 1 + choice % 200);
  for (std::size_t i = 0; i < firsts.size(); ++i) {
    const std::uint64_t begin = offsets[firsts[i]];
    const std::uint64_t end = i + 1 < firsts.size() ? offsets[firsts[i + 1]] : text.size();
    padded = text.substr(begin, end - begin) + std::string(kCtfPadding, '\n');
    Ledger items(kNoLimit);
    CtfScanner scanner(
        format, items,
        {.ignore_ids = ignore_ids, .first_line = index.sequences().lines[firsts[i]]});
    scanner.scan({padded.data(), end - begin}, begin);
    scanner.finish();
    const std::uint64_t last = i + 1 < firsts.size() ? firsts[i + 1] : offsets.size();
    CHECK(scanner.sequences().keys.size() == last - firsts[i]);
    CHECK(std::ranges::equal(
        scanner.sequences().sizes,
        std::span(index.sequences().sizes).subspan(firsts[i], last - firsts[i])));
    check_columns(scanner);
    num_items += items.offsets().size();
    for (const auto& column : scanner.columns()) num_values += column->num_values();
  }
  // Lines before the first sequence belong to no chunk: they are blank.
  CHECK(num_items == ledger.offsets().size());
  CHECK(num_values <= text.size() * 3);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
