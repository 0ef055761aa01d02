// Elements of one type copied as another, where no value may be lost.
#pragma once

#include "base/element.hpp"

#include <cstddef>
#include <optional>

namespace sweephand {

// Copies `count` elements. Returns the number of the first refused element, if any; the
// contents of `to` are then undefined.
using Convert = std::optional<std::size_t>(const std::byte* from, std::byte* to,
                                           std::size_t count);

// The way from one type to another. Integers must fit, also those that become floats, which may
// have no more digits than the float; floats that become integers must be whole. A float may be
// rounded to the nearest narrower one, once, but a finite one must stay finite. Where there is
// no way, every element is refused.
Convert* converter(ElementType from, ElementType to);

}  // namespace sweephand
