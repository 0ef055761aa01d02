#include "base/error.hpp"

#include <string>
#include <utility>

namespace sweephand {
namespace {

void append(std::string& text, const std::string& separator, const std::string& part) {
  if (!text.empty()) text += separator;
  text += part;
}

// sweephand.errors.DataError.__str__ writes the same.
std::string describe(const std::string& reason, const Place& place) {
  std::string within;
  if (place.chunk) append(within, ", ", "chunk " + std::to_string(*place.chunk));
  if (place.stream) append(within, ", ", "stream '" + *place.stream + "'");
  if (place.sequence) append(within, ", ", "sequence " + std::to_string(*place.sequence));

  std::string text;
  if (place.file) text = *place.file;
  if (place.offset) append(text, " ", "@ " + std::to_string(*place.offset));
  if (!within.empty()) append(text, " ", "[" + within + "]");
  append(text, ": ", reason);
  return text;
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
  return {reason_, std::move(joined), is_stale_};
}

}  // namespace sweephand
