// The result of a user's function, and whether other code can still write to it.
#pragma once

#include "bind/bind.hpp"
#include "bind/sample_columns.hpp"

#include <cstdint>

namespace sweephand {

// Calls a function and returns (result, is_own). It is its caller's own if it is immutable, or
// if every list, dict and array of it, and the memory of the array, is held by the result
// alone, by reference counts. If that is unknown, it is not. Linear in the result.
py::tuple own_call(const py::object& function, const py::tuple& arguments);

// Calls a function for one sequence after the other, which it takes as a dict of an entry of
// each stream, and a key if there are any. Returns the results and the seconds that each call
// took. An array that it was given is its caller's when it comes back, and so is a view of one,
// unless the function has kept another view. In place of a result that is not its caller's own,
// and of an error, an Exception or SystemExit, comes `settle(number, result, has_raised)`.
// Numbers begin with `first`; `progress`, 16 bytes, shows which one is mapped: an int64, -1
// between calls, and since when, a double of the monotonic clock.
py::tuple map_each(const py::object& function, const py::list& names, const py::list& streams,
                   const py::list& keys, std::int64_t first, Array<std::uint8_t> progress,
                   const py::object& settle);

// The same, where results are copied to columns before the next call, so other holders do not
// matter. `settle` returns the samples, an entry a stream, of a result that needs inspection,
// or of the replacement of an error. Returns the seconds that each call took.
py::array_t<double> map_into(SampleColumns& columns, const py::object& function,
                             const py::list& names, const py::list& streams,
                             const py::list& keys, Array<std::uint8_t> progress,
                             const py::object& settle);

}  // namespace sweephand
