// Lists of HTK's feature files (SCP): a sequence a line, which is all frames of a file, or a
// range of an archive with many consecutive sequences.
//
//   line = path | key "=" path | key "=" path "[" first "," last "]"
//
// The key is the path, without the suffix of its last part.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sweephand {

struct ScpEntries {
  std::vector<std::string> keys;
  std::vector<std::string> paths;     // each once, in the order of their appearance
  std::vector<std::int64_t> numbers;  // of the path that each sequence is in
  std::vector<std::int64_t> firsts;   // its first frame there
  std::vector<std::int64_t> lengths;  // how many; -1 for all that the file has
};

// Throws DataError with the line that is none.
ScpEntries parse_scp(std::span<const char> text);

// The key of a path: the path without the suffix of its last part.
std::string without_suffix(std::string_view path);

}  // namespace sweephand
