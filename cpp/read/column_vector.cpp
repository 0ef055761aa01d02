#include "read/column_vector.hpp"

#include <memory>

namespace sweephand {
namespace {

constexpr std::size_t kMostFree = std::size_t{64} << 20;  // bytes

}  // namespace

BlockPool& column_pool() {
  static auto* const only =
      new BlockPool(kMostFree);  // NOLINT(cppcoreguidelines-owning-memory)
  return *only;
}

}  // namespace sweephand
