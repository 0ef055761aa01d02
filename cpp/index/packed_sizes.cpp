#include "index/packed_sizes.hpp"

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

std::shared_ptr<Sizes> unpack_sizes(const PackedIntegers& packed) {
  PackedIntegers::Walk sizes(packed);
  const std::uint64_t first = packed.size() == 0 ? 0 : sizes[0];
  std::uint64_t equal = 0;
  while (equal < packed.size() && sizes[equal] == first) ++equal;
  if (equal == packed.size())
    return std::make_shared<CommonSize>(static_cast<std::uint32_t>(first));
  std::vector<std::uint32_t> unpacked(packed.size());
  packed.read(0, std::span(unpacked));
  return std::make_shared<StoredSizes>(std::move(unpacked));
}

}  // namespace sweephand
