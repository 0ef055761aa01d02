// Minibatches as a loop is given them.
#pragma once

#include "bind/bind.hpp"
#include "engine/batch.hpp"

#include <memory>

namespace sweephand {

// A minibatch of a class that derives from ServedBatch. `contents` is Python's, with `kinds`.
// REQUIRES: the GIL is held
py::object serve(std::shared_ptr<const Batch> batch, const py::type& kind, py::object contents,
                 py::object device);

// Their base classes in Python, and their common methods.
void bind_served(py::module_& room);

}  // namespace sweephand
