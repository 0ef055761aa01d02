// Lists of HTK's feature files: whatever the text, it is refused with its line, or every line
// that is not blank is a sequence, whose parts written out again are read as the same.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/scp.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>

namespace sweephand {
namespace {

std::optional<ScpEntries> parse(std::string_view text) {
  try {
    return parse_scp({text.data(), text.size()});
  } catch (const DataError& error) {
    const auto& place = error.place();
    CHECK(place.line.has_value() && *place.line > 0);
    CHECK(place.offset.has_value() && *place.offset < text.size());
    const std::string_view before = text.substr(0, *place.offset);
    CHECK(*place.line ==
          1 + static_cast<std::uint64_t>(std::count(before.begin(), before.end(), '\n')));
    CHECK(*place.offset == 0 || text[*place.offset - 1] == '\n');
    return std::nullopt;
  }
}

void check_sizes(const ScpEntries& found, std::string_view text) {
  const std::size_t size = found.keys.size();
  CHECK(found.numbers.size() == size && found.firsts.size() == size);
  CHECK(found.lengths.size() == size && found.paths.size() <= size);
  CHECK(std::set(found.paths.begin(), found.paths.end()).size() == found.paths.size());
  CHECK(size <= static_cast<std::size_t>(std::ranges::count(text, '\n')) + 1);
  std::int64_t next = 0;  // of the paths, which come in the order of their appearance
  for (std::size_t i = 0; i < size; ++i) {
    CHECK(0 <= found.numbers[i] && found.numbers[i] <= next);
    next += found.numbers[i] == next ? 1 : 0;
    CHECK(found.firsts[i] >= 0 && found.firsts[i] < 4'294'967'296);
    CHECK(found.lengths[i] == -1 ? found.firsts[i] == 0 : found.lengths[i] > 0);
  }
  CHECK(static_cast<std::size_t>(next) == found.paths.size());
}

// Paths that end in a bracket can only be written with a range behind it.
std::string written(const ScpEntries& found, std::size_t entry) {
  std::string line = "a key=" + found.paths[static_cast<std::size_t>(found.numbers[entry])];
  if (found.lengths[entry] > 0) {
    const std::int64_t last = found.firsts[entry] + found.lengths[entry] - 1;
    line += "[" + std::to_string(found.firsts[entry]) + "," + std::to_string(last) + "]";
  }
  return line;
}

void check_written(const ScpEntries& found) {
  for (std::size_t i = 0; i < found.keys.size(); ++i) {
    const std::string& path = found.paths[static_cast<std::size_t>(found.numbers[i])];
    if (found.lengths[i] == -1 && path.ends_with(']')) continue;
    const auto again = parse(written(found, i));
    CHECK(again && again->keys.size() == 1 && again->paths[0] == path);
    CHECK(again->keys[0] == "a key");
    CHECK(again->firsts[0] == found.firsts[i] && again->lengths[0] == found.lengths[i]);
  }
}

void run(Input input) {
  const std::string_view text(reinterpret_cast<const char*>(input.data()), input.size());
  const auto found = parse(text);
  if (!found) return;
  check_sizes(*found, text);
  check_written(*found);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
