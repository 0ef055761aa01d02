#include "read/column_vector.hpp"

namespace sweephand {
namespace {

constexpr std::size_t kMostFree = std::size_t{64} << 20;  // bytes

}  // namespace

BlockPool& column_pool() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): nobody owns it
  static auto* const only = new BlockPool(kMostFree);
  return *only;
}

}  // namespace sweephand
