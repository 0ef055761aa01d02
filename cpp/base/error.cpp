#include "base/error.hpp"

#include <vector>

namespace sweephand {
namespace {

std::string join(const std::vector<std::string>& parts, const std::string& separator) {
  std::string text;
  for (const std::string& part : parts) {
    if (&part != &parts.front()) text += separator;
    text += part;
  }
  return text;
}

// sweephand.errors.DataError.__str__ writes the same.
std::string describe(const std::string& reason, const Place& place) {
  std::vector<std::string> within;
  if (place.line) within.push_back("line " + std::to_string(*place.line));
  if (place.chunk) within.push_back("chunk " + std::to_string(*place.chunk));
  if (place.stream) within.push_back("stream '" + *place.stream + "'");
  if (place.sequence) within.push_back("sequence " + std::to_string(*place.sequence));

  std::vector<std::string> where;
  if (place.file) where.push_back(*place.file);
  if (place.offset) where.push_back("@ " + std::to_string(*place.offset));
  if (!within.empty()) where.push_back("[" + join(within, ", ") + "]");
  return where.empty() ? reason : join(where, " ") + ": " + reason;
}

}  // namespace

DataError::DataError(const std::string& reason, Place place, bool is_stale)
    : std::runtime_error(describe(reason, place)),
      reason_(reason),
      place_(std::move(place)),
      is_stale_(is_stale) {}

DataError DataError::within(const Place& place) const {
  Place joined = place_;
  if (!joined.file) joined.file = place.file;
  if (!joined.offset) joined.offset = place.offset;
  if (!joined.chunk) joined.chunk = place.chunk;
  if (!joined.stream) joined.stream = place.stream;
  if (!joined.sequence) joined.sequence = place.sequence;
  if (!joined.line) joined.line = place.line;
  return {reason_, std::move(joined), is_stale_};
}

}  // namespace sweephand
