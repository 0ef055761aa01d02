// Elements of one type copied as another, where no value may be lost.
#pragma once

#include "base/element.hpp"

#include <cstddef>
#include <optional>

namespace sweephand {

// Whether `convert` knows the way. Opaque elements and complex numbers go nowhere but to
// themselves.
bool convertible(ElementType from, ElementType to) noexcept;

// Copies `count` elements. Integers must fit, also those that become floats, which may have no
// more digits than the float; floats that become integers must be whole. A float may be rounded
// to the nearest narrower one, once, but a finite one must stay finite. Returns the number of
// the first element that is refused, if any; what stands in `to` is then undefined. REQUIRES:
// convertible(from_type, to_type)
std::optional<std::size_t> convert(ElementType from_type, const std::byte* from,
                                   ElementType to_type, std::byte* to, std::size_t count);

}  // namespace sweephand
