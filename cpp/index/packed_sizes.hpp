// The sizes of sequences in an index.
#pragma once

#include "index/packed_integers.hpp"
#include "index/sizes.hpp"

#include <memory>

namespace sweephand {

// In four bytes each, as planning asks for them in any order; a common one where all are equal.
std::shared_ptr<Sizes> unpack_sizes(const PackedIntegers& packed);

}  // namespace sweephand
