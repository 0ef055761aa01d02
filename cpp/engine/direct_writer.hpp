// Lays out streams that lie in memory as they are delivered, or in another type: loops at the
// speed of memory.
#pragma once

#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "read/column.hpp"

#include <cstdint>
#include <optional>
#include <span>

namespace sweephand {

// Whether the elements of a column are those of the stream but for their type, one sample
// behind the other, in memory.
bool lies_as_delivered(const Column& column, const StreamSpec& stream);

// Sequences of one row each, that of their number or of what `joined` calls it. Throws
// DataError naming the sequence if an element does not fit. REQUIRES: the column lies as
// delivered, without sample offsets
StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool);

// Whole sequences, one behind the other. Nothing if one of them does not lie within the column,
// or has not the one sample that all have. Throws as write_rows does. REQUIRES: the column lies
// as delivered
std::optional<StreamBatch> write_sequences(const Column& column,
                                           std::span<const PlannedSequence> share,
                                           std::span<const std::uint64_t> joined,
                                           const StreamSpec& stream, BufferPool& pool);

}  // namespace sweephand
