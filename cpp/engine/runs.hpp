// The places of a share's samples, compared with the plan before anything is copied, and the
// copies.
#pragma once

#include "base/error.hpp"
#include "compose/plan.hpp"
#include "engine/batch.hpp"
#include "read/column.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

// A chunk that holds sequences of a share.
struct LocatedChunk {
  std::shared_ptr<const Chunk> chunk;
  std::uint64_t planned = 0;            // the sequences that it should have
  std::optional<std::uint64_t> number;  // of the corpus' chunks, for errors
};

// The contribution of one member to a share: the sequences, and their chunks.
struct Located {
  struct Sequence {
    const Chunk* chunk;  // null if it holds other sequences than planned
    std::uint64_t index;
  };
  std::vector<Sequence> sequences;
  std::vector<LocatedChunk> chunks;  // keeps them
};

// Consecutive samples of a column, and their origin.
struct Run {
  const Column* column = nullptr;  // null if the sequence cannot be delivered
  std::uint64_t begin = 0;         // sample of the column
  std::uint64_t sequence = 0;      // for errors
  std::uint64_t samples = 0;       // in the column
  std::uint64_t length = 0;  // in the minibatch: more than in the column where one is repeated
};

// The whole sequences of the share in one stream. Of one that is skipped, or whose samples are
// not there, the run has no column.
std::vector<Run> runs_of(const Located& located, const Plan& plan, const StreamSpec& stream);

// Whether the columns of the chunk match the streams of a member. `streams` are those of all
// members.
bool fits(const Chunk& chunk, std::span<const StreamSpec> streams, std::uint32_t member);

// Leaves sequences out of the plan's share, and of the runs of every stream, that one of the
// streams cannot deliver, or that do not have the samples that were planned. Streams without
// runs have one sample per sequence. Sequences that its deserializer does not skip go to
// `report` first. In a row later ones move up.
void leave_out_unusable(std::vector<std::vector<Run>>& runs, Plan& plan,
                        std::span<const StreamSpec> streams, const Report& report);

// The same for all pieces of one sequence.
void leave_out(std::uint64_t sequence, std::vector<std::vector<Run>>& runs, Plan& plan);

// Throws DataError naming stream and sequence when one has another number of samples than one.
void check_single(std::span<const Run> runs, const StreamSpec& stream);

// Cuts each run down to the piece that the plan wants of it, or repeats its one sample if the
// stream is broadcast. Carried items go with the first piece. Throws DataError naming stream
// and sequence when it has other samples than the stream that defines the size.
void fit_to_plan(std::span<Run> runs, const Plan& plan, const StreamSpec& stream);

// Writes one stream of a share to buffers. `runs` has one entry per sequence of the share;
// `plan` says where they go if the form is kRows.
StreamBatch write_stream(std::span<const Run> runs, const Plan& plan, const StreamSpec& stream,
                         const AssembleOptions& options, BufferPool& pool);

// The same of a table in memory, whose sequences are rows: that of the number of each in the
// share, or of its entry in `joined`. Throws DataError naming the sequence if an element does
// not fit. REQUIRES: column.values, and no offsets
StreamBatch write_rows(const Column& column, std::span<const PlannedSequence> share,
                       std::span<const std::uint64_t> joined, const StreamSpec& stream,
                       BufferPool& pool);

}  // namespace sweephand
