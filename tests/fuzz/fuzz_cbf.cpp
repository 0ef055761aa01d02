// Chunks of CNTK's binary format: whatever the bytes, they are refused with a place within
// them, or give as many sequences as were asked for, of whole samples.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/cbf.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

namespace sweephand {
namespace {

void check_whole(const Column& column, std::uint64_t num_sequences, std::int64_t dimension) {
  CHECK(column.num_sequences == num_sequences);
  const std::span offsets(column.sample_offsets, num_sequences + 1);
  CHECK(std::ranges::is_sorted(offsets));
  CHECK(std::cmp_equal(offsets.back(), column.num_samples));
  if (column.element_offsets == nullptr) return;
  const std::span elements(column.element_offsets, column.num_samples + 1);
  CHECK(std::ranges::is_sorted(elements));
  const auto count = static_cast<std::size_t>(elements.back());
  CHECK(std::ranges::all_of(std::span(column.indices, count), [&](std::int32_t index) {
    return index >= 0 && index < dimension;
  }));
}

void run(Input input) {
  if (input.empty()) return;
  const std::array<CbfStream, 3> streams{
      CbfStream{.name = "words", .is_sparse = true, .dimension = 9},
      CbfStream{.name = "passed", .is_wanted = false, .dimension = 1},
      CbfStream{.name = "y", .is_double = true, .dimension = 2}};
  const std::uint64_t num_sequences = std::to_integer<std::uint64_t>(input[0]) % 4;
  std::shared_ptr<const Chunk> chunk;
  try {
    chunk = read_cbf_chunk(input.subspan(1), num_sequences, streams);
  } catch (const DataError& error) {
    CHECK(error.place().offset <= input.size() - 1);
    return;
  }
  CHECK(chunk->columns.size() == 2);
  check_whole(chunk->columns[0], num_sequences, 9);
  check_whole(chunk->columns[1], num_sequences, 2);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
