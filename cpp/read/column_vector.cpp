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

std::shared_ptr<std::uint8_t> take_bytes(std::size_t size) {
  ColumnAllocator<std::uint8_t> allocator;
  return {allocator.allocate(size), [size](std::uint8_t* bytes) {
            ColumnAllocator<std::uint8_t>().deallocate(bytes, size);
          }};
}

}  // namespace sweephand
