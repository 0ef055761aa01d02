// Writes one stream of a share to buffers.
#pragma once

#include "engine/assemble.hpp"
#include "engine/runs.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// `runs` has one entry per sequence of the share; `plan` says where they go if the form is
// kRows.
StreamBatch write_stream(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                         const AssembleOptions& options, BufferPool& pool);

}  // namespace sweephand
