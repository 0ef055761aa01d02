// TFRecord frames: no file makes the reader do anything but report or throw; what the index
// finds, a chunk reads.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/ledger.hpp"
#include "formats/record_frames.hpp"
#include "formats/tfrecord.hpp"
#include "read/byte_source.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

std::vector<std::uint64_t> find_frames(Input input, std::size_t piece, bool& is_whole) {
  FrameFinder finder("fuzz");
  is_whole = false;
  try {
    while (finder.wanted() < input.size()) {
      const std::uint64_t offset = finder.wanted();
      finder.feed(offset, input.subspan(offset, std::min(piece, input.size() - offset)));
    }
    finder.finish(input.size());
    is_whole = true;
  } catch (const DataError& error) {
    CHECK(error.place().offset == finder.offsets().back());
  }
  return finder.offsets();
}

// Records read block by block are those that lie in memory; so is the error that ends them.
void check_blocks(Input input, std::uint64_t block_bytes) {
  const HeldBytes file("fuzz", 0, input);
  RecordBlocks blocks(file, 0, input.size(), kExamplePadding, block_bytes);
  Input rest = input;
  while (!rest.empty()) {
    CHECK(!blocks.is_done());
    CHECK(blocks.consumed() == input.size() - rest.size());
    std::string reason;
    Record expected;
    try {
      expected = take_record(rest);
    } catch (const DataError& error) {
      reason = error.reason();
    }
    blocks.prepare();
    try {
      const Record found = blocks.take();
      CHECK(reason.empty());
      CHECK(found.is_whole == expected.is_whole);
      CHECK(std::ranges::equal(found.data, expected.data));
    } catch (const DataError& error) {
      CHECK(error.reason() == reason);
      return;
    }
  }
  CHECK(blocks.is_done());
}

void run(Input input) {
  check_blocks(input, 1 + input.size() % 64);
  check_blocks(input, input.size());
  bool is_whole = false;
  const auto offsets = find_frames(input, input.size() + 1, is_whole);
  CHECK(std::ranges::is_sorted(offsets));
  CHECK(offsets.back() <= input.size());
  CHECK((offsets.back() == input.size()) == is_whole);
  bool again = false;
  CHECK(find_frames(input, 5, again) == offsets);
  CHECK(again == is_whole);

  std::vector<std::byte> records(offsets.back() + kExamplePadding);
  std::ranges::copy(input.first(offsets.back()), records.begin());
  const auto bytes = std::span<const std::byte>(records).first(offsets.back());
  Ledger damaged(offsets.size());
  const auto chunk =
      decode_records({{.key = "tokens", .is_sequence = true, .is_required = false}},
                     {.bytes = bytes}, input.size() % 2 == 0, damaged);
  CHECK(chunk->num_sequences == offsets.size() - 1);
  CHECK(damaged.offsets().size() < offsets.size());
  CHECK(find_kinds({"tokens"}, {.bytes = bytes}, true).size() == 1);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
