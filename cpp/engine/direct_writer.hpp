// Lays out streams that are in memory as they are delivered, or in another type: loops at the
// speed of memory.
#pragma once

#include "base/search.hpp"
#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "engine/copy.hpp"
#include "read/column.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// Whether the elements of a column are those of the stream but for their type, with consecutive
// samples, in memory.
bool lies_as_delivered(const Column& column, const StreamSpec& stream);

// Sequences of one row each, at the row of their number, or of its entry in `joined`. Throws
// DataError naming the sequence if an element does not fit. REQUIRES:
// lies_as_delivered(column), without sample offsets
StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool);

// Whole sequences, one after the other. Nothing if one of them is not within the column, or
// lacks the one sample that all have. Throws as write_rows does. REQUIRES:
// lies_as_delivered(column)
std::optional<StreamBatch> write_sequences(const Column& column,
                                           std::span<const PlannedSequence> share,
                                           std::span<const std::uint64_t> joined,
                                           const StreamSpec& stream, BufferPool& pool);

// A stream in parts, each of which holds sequences from one number on.
class PartedColumn {
 public:
  // `stream` must outlive this. REQUIRES: columns are in memory as delivered, and in no file;
  // starts[0] is 0, and the last of `starts` is the end of the last column
  PartedColumn(std::vector<Column> columns, std::vector<std::uint64_t> starts,
               const StreamSpec& stream);

  // As write_sequences.
  std::optional<StreamBatch> write(std::span<const PlannedSequence> share,
                                   BufferPool& pool) const;

 private:
  struct Found {
    std::size_t part;
    std::uint64_t first;  // sequence of the part, then element of it
  };

  std::vector<Found> find_parts(std::span<const PlannedSequence> share) const;
  bool find_elements(std::span<Found> found, std::int64_t* offsets,
                     std::uint64_t& longest) const;

  const StreamSpec* stream_;
  std::vector<Column> columns_;
  std::vector<ColumnCopier> copiers_;
  std::vector<std::uint64_t> starts_;
  EvenGuess guess_;
};

}  // namespace sweephand
