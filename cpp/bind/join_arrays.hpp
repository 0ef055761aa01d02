// Small arrays of NumPy laid one behind the other, by one look at each.
#pragma once

#include "bind/bind.hpp"

namespace sweephand {

// (bytes, offsets) of a list of C-contiguous arrays that have the very dtype of `like`, and its
// shape but for the first axis, which each of them may have, or none of them: then each is one
// entry. None if one of them is something else.
py::object join_arrays(const py::list& arrays, const py::array& like);

}  // namespace sweephand
