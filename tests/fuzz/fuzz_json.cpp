// Lines of JSON: whatever the text, it is left alone or gives whole columns, the same with or
// without a line behind it.
#include "../cpp/check.hpp"
#include "driver.hpp"
#include "formats/json_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace sweephand {
namespace {

std::shared_ptr<const Chunk> read(const std::string& text) {
  const std::string padded = text + std::string(kJsonPadding, '\0');
  return read_json_lines({{.name = "a"}, {.name = "b", .wanted = ElementType::kFloat16}},
                         std::span(padded).first(text.size()));
}

// Offsets of `count` items ascend, and items are no more than bytes. Returns the last one.
std::uint64_t check_offsets(const std::int64_t* offsets, std::uint64_t count,
                            std::uint64_t num_bytes) {
  const std::span all(offsets, count + 1);
  CHECK(std::ranges::is_sorted(all));
  const auto last = static_cast<std::uint64_t>(all.back());
  CHECK(last <= num_bytes);
  return last;
}

void check_whole(const Chunk& chunk, std::uint64_t num_bytes) {
  CHECK(chunk.num_sequences <= num_bytes);
  for (const Column& column : chunk.columns) {
    const std::uint64_t num_samples =
        check_offsets(column.sample_offsets, chunk.num_sequences, num_bytes);
    if (column.element_offsets != nullptr)
      check_offsets(column.element_offsets, num_samples, num_bytes);
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
