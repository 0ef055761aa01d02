// What a function of the user returns, and whether anybody else can still write to it.
#pragma once

#include "bind/bind.hpp"

namespace sweephand {

// Calls a function and returns (result, is_own). It is its caller's own if it is immutable, or
// if every list, dict and array of it, and the memory behind the array, is held by the result
// alone, by count of references. Where that is not known it is not. Linear in what there is.
py::tuple own_call(const py::object& function, const py::tuple& arguments);

// The same for a function of a sequence, which it takes as a dict of the entry `number` of each
// stream, and a key if there is one. An array that it was given is its caller's when it comes
// back, and so is a view of one, unless the function has kept another view.
py::tuple map_call(const py::object& function, const py::list& names, const py::list& streams,
                   py::ssize_t number, const py::object& key);

}  // namespace sweephand
