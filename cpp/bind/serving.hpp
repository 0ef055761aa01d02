// Calls for minibatches that Python has no part in.
#pragma once

#include "bind/bind.hpp"
#include "engine/engine.hpp"

#include <memory>

namespace sweephand {

// Throws Python's exception for a signal, such as Ctrl-C.
void check_signals();

// The next minibatch of an engine that is not forked. REQUIRES: the GIL is held, which is
// released only to wait
std::shared_ptr<const Batch> next_of(Engine& engine, const Request& request);

// The base class of cursors in Python, and the method of sources that calls them.
void bind_serving(py::module_& room);

}  // namespace sweephand
