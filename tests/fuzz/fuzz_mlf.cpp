// Label files of HTK, and lists of its feature files: whatever the text, it is refused with a
// line, or what comes of it fits together.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/mlf.hpp"
#include "formats/scp.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>

namespace sweephand {
namespace {

void check_utterances(const MlfUtterances& found, std::size_t size) {
  CHECK(found.num_runs.size() == found.keys.size());
  const auto sum =
      std::accumulate(found.num_runs.begin(), found.num_runs.end(), std::size_t{0});
  CHECK(sum == found.run_frames.size());
  CHECK(sum == found.run_classes.size());
  CHECK(std::ranges::all_of(found.run_classes, [](std::int32_t one) { return one >= 0; }));
  CHECK(std::ranges::all_of(found.faults, [&](const MlfFault& fault) {
    return found.num_runs.at(fault.utterance) == 0 && fault.offset <= size;
  }));
}

void check_labels(std::span<const char> text, const MlfFormat& format) {
  try {
    check_utterances(parse_mlf(text, format), text.size());
  } catch (const DataError& error) {
    CHECK(error.place().line.has_value());
    CHECK(error.place().offset <= text.size());
  }
}

void check_list(std::span<const char> text) {
  ScpEntries found;
  try {
    found = parse_scp(text);
  } catch (const DataError& error) {
    CHECK(error.place().line.has_value());
    return;
  }
  CHECK(found.numbers.size() == found.keys.size());
  CHECK(found.firsts.size() == found.keys.size());
  const auto num_paths = static_cast<std::int64_t>(found.paths.size());
  CHECK(std::ranges::all_of(found.numbers, [&](std::int64_t one) { return one < num_paths; }));
  CHECK(std::ranges::all_of(found.lengths,
                            [](std::int64_t one) { return one == -1 || one > 0; }));
}

void run(Input input) {
  const std::span text(reinterpret_cast<const char*>(input.data()), input.size());
  check_labels(text, {});
  check_labels(text, {.states = {"sil", "ah"}, .num_classes = 2});
  check_list(text);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
