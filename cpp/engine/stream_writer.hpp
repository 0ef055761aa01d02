// Lays one stream of a share into buffers.
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

// The same for the simplest of streams: a table in memory that gives each sequence one row, the
// row of its number or of what `joined` calls it. One loop, at the speed of memory.
StreamBatch write_rows(const Column& table, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool);

}  // namespace sweephand
