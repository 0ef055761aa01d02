#include "index/counts.hpp"

#include <stdexcept>
#include <string>

namespace sweephand {

void check_total(std::uint64_t total, std::uint64_t more, const char* things,
                 std::uint64_t chunk) {
  if (more <= kMaxTotal - total) return;
  throw std::invalid_argument(std::string("a corpus may hold at most 2^63 - 1 ") + things +
                              ", passed in chunk " + std::to_string(chunk));
}

void check_inside(std::uint64_t number, std::uint64_t end) {
  if (number < end) return;
  throw std::out_of_range("there is no " + std::to_string(number) + " among " +
                          std::to_string(end));
}

}  // namespace sweephand
