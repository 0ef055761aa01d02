#include "formats/ctf_format.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace sweephand {

void check(const CtfFormat& format) {
  if (format.streams.empty()) throw std::invalid_argument("there must be a stream");
  std::uint64_t num_sizes = 0;
  for (const CtfStream& stream : format.streams) {
    const std::string field = "field '" + stream.field + "'";
    const auto unfit = [](char byte) {
      return static_cast<unsigned char>(byte) <= ' ' || byte == '|';
    };
    if (stream.field.empty() || stream.field.front() == '#' ||
        std::ranges::any_of(stream.field, unfit))
      throw std::invalid_argument(field +
                                  " cannot be a name: it must have no blank, '|' or "
                                  "control character, and not begin with '#'");
    const auto same = [&](const CtfStream& other) { return other.field == stream.field; };
    if (std::ranges::count_if(format.streams, same) > 1)
      throw std::invalid_argument(field + " is declared twice");
    constexpr std::uint64_t kMost = std::numeric_limits<std::int32_t>::max();
    if (stream.dimension == 0 || stream.dimension > kMost)
      throw std::invalid_argument(field + ": the shape must hold 1 to 2^31 - 1 numbers, got " +
                                  std::to_string(stream.dimension));
    num_sizes += stream.defines_mb_size ? 1 : 0;
  }
  if (num_sizes > 1) throw std::invalid_argument("only one stream may say defines_mb_size");
}

}  // namespace sweephand
