// Lines of JSON: whatever the text, it is left alone or gives whole columns, the same with or
// without a line behind it.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "read/json_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

std::shared_ptr<const Chunk> read(const std::string& text) {
  const std::string padded = text + std::string(kJsonPadding, '\0');
  return read_json_lines({"a", "b"}, std::span(padded).first(text.size()));
}

void check_whole(const Chunk& chunk, std::size_t num_bytes) {
  CHECK(chunk.num_sequences <= num_bytes);
  for (const Column& column : chunk.columns) {
    const std::span offsets(column.sample_offsets, chunk.num_sequences + 1);
    CHECK(std::ranges::is_sorted(offsets));
    CHECK(static_cast<std::size_t>(offsets.back()) <= num_bytes);
    if (column.element_offsets == nullptr) continue;
    const std::span ends(column.element_offsets, static_cast<std::size_t>(offsets.back()) + 1);
    CHECK(std::ranges::is_sorted(ends));
    CHECK(static_cast<std::size_t>(ends.back()) <= num_bytes);
  }
}

void run(Input input) {
  const std::string text(reinterpret_cast<const char*>(input.data()), input.size());
  const auto chunk = read(text);
  const auto longer = read(text + "\n{}");
  CHECK((chunk == nullptr) == (longer == nullptr));
  if (chunk == nullptr) return;
  check_whole(*chunk, input.size());
  CHECK(longer->num_sequences == chunk->num_sequences + 1);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
