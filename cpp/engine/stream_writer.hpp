// Writes one stream of a share to buffers.
#pragma once

#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "engine/runs.hpp"
#include "read/column.hpp"

#include <cstdint>
#include <span>

namespace sweephand {

// `runs` has one entry per sequence of the share; `plan` says where they go if the form is
// kRows.
StreamBatch write_stream(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                         const AssembleOptions& options, BufferPool& pool);

// The same of a table in memory, whose sequences are rows: that of the number of each in the
// share, or of its entry in `joined`. Throws DataError naming the sequence if an element does
// not fit. REQUIRES: column.values, and no offsets
StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool);

}  // namespace sweephand
