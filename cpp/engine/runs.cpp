#include "engine/runs.hpp"

#include "read/mapped_offsets.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// A broadcast stream has as many samples in the minibatch as the sequence is long.
void repeat(std::span<Run> runs, const Plan& plan, const StreamSpec& stream) {
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (runs[j].samples != 1) {
      throw DataError("a broadcast stream has one sample per sequence, here are " +
                          std::to_string(runs[j].samples),
                      {.stream = stream.name, .sequence = runs[j].sequence});
    }
    runs[j].length = plan.share[j].size;
  }
}

// Cuts each run down to the piece that its cell holds.
void cut_to_pieces(std::span<Run> runs, const Plan& plan, const StreamSpec& stream) {
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (runs[j].samples != plan.cells[j].whole) {
      throw DataError("the stream has " + std::to_string(runs[j].samples) +
                          " samples where the stream that defines the size has " +
                          std::to_string(plan.cells[j].whole) +
                          "; rows need streams of equal lengths, or in the StreamDef "
                          "broadcast=True for one sample per sequence, carried=True for any "
                          "number of them",
                      {.stream = stream.name, .sequence = runs[j].sequence});
    }
    runs[j].begin += plan.cells[j].first;
    runs[j].samples = plan.share[j].size;
    runs[j].length = plan.share[j].size;
  }
}

// Carried items come whole, with the first piece of their sequence.
void carry_with_first_pieces(std::span<Run> runs, const Plan& plan) {
  for (std::size_t j = 0; j < runs.size(); ++j) {
    if (plan.cells[j].first == 0) continue;
    runs[j].samples = 0;
    runs[j].length = 0;
  }
}

std::uint64_t planned_size(const Plan& plan, std::size_t j) {
  return plan.cells.empty() ? plan.share[j].size : plan.cells[j].whole;
}

constexpr std::uint64_t kOutside = ~std::uint64_t{0};  // samples of a run that is not there

// The state of a sequence after loading, over all streams.
struct LoadedSequence {
  bool skipped = false;    // a stream cannot deliver it
  std::uint64_t size = 0;  // of the longest stream that counts, or 0; kOutside if a part of
                           // it is missing
};

// Looks at the runs of all streams side by side.
class LoadedSequences {
 public:
  LoadedSequences(const std::vector<std::vector<Run>>& runs,
                  std::span<const StreamSpec> streams) {
    for (std::size_t stream = 0; stream < runs.size(); ++stream) {
      if (!runs[stream].empty()) {
        streams_.push_back({runs[stream].data(), streams[stream].counts});
      } else if (streams[stream].counts) {
        least_ = 1;  // a table has one sample per sequence
      }
    }
  }

  LoadedSequence operator[](std::size_t j) const {
    LoadedSequence loaded{.size = least_};
    for (const auto& [runs, counts] : streams_) {
      const Run& run = runs[j];
      loaded.skipped = loaded.skipped || run.column == nullptr;
      // kOutside is the largest value.
      if (counts || run.samples == kOutside) loaded.size = std::max(loaded.size, run.samples);
    }
    return loaded;
  }

 private:
  struct Stream {
    const Run* runs;
    bool counts;
  };

  std::vector<Stream> streams_;
  std::uint64_t least_ = 0;
};

StaleError disagreement(std::uint64_t sequence, std::uint64_t planned, std::uint64_t loaded) {
  const std::string found = loaded == kOutside ? "does not lie within its chunk"
                                               : "has " + std::to_string(loaded) + " samples";
  return StaleError("the sequence " + found + ", but " + std::to_string(planned) +
                        " samples were planned; the data changed since they were measured, or "
                        "the index is not theirs: build it again",
                    {.sequence = sequence});
}

// Keeps those entries of the share for which `keep(j)` is true, and their runs.
template <class Keep>
void keep_only(std::vector<std::vector<Run>>& runs, Plan& plan, const Keep& keep) {
  const std::size_t kept = keep_of_share(plan, keep, [&](std::size_t to, std::size_t from) {
    for (auto& stream : runs) {
      if (!stream.empty()) stream[to] = stream[from];
    }
  });
  for (auto& stream : runs) {
    if (!stream.empty()) stream.resize(kept);
  }
}

// Prefetches the offsets of the elements of a sequence, if their number varies.
[[gnu::always_inline]] inline void prefetch_bounds(const Located::Sequence& sequence,
                                                   const StreamSpec& stream) {
  if (!stream.variable || sequence.chunk == nullptr) return;
  const Column& column = sequence.chunk->columns[stream.column];
  const std::int64_t sample = column.begin(sequence.index);
  if (column.element_offsets != nullptr && std::cmp_less(sample, column.num_samples) &&
      sample >= 0)
    __builtin_prefetch(column.element_offsets + sample);
}

void find_runs(const Located& located, const Plan& plan, const StreamSpec& stream,
               std::vector<Run>& runs) {
  constexpr std::size_t kAhead = 32;
  const auto& sequences = located.sequences;
  runs.clear();
  runs.reserve(sequences.size());
  const bool any_skipped = std::ranges::any_of(
      located.chunks, [](const auto& one) { return !one.chunk->skipped.empty(); });
  for (std::size_t j = 0; j < sequences.size(); ++j) {
    if (j + kAhead < sequences.size() && sequences[j + kAhead].chunk != nullptr) {
      const Column& later = sequences[j + kAhead].chunk->columns[stream.column];
      if (later.sample_offsets != nullptr)
        __builtin_prefetch(later.sample_offsets + sequences[j + kAhead].index);
    }
    if (j + kAhead / 2 < sequences.size()) prefetch_bounds(sequences[j + kAhead / 2], stream);
    const auto [chunk, index] = sequences[j];
    Run run{.sequence = plan.share[j].sequence};
    if (chunk != nullptr &&
        !(any_skipped && std::ranges::binary_search(chunk->skipped, index))) {
      const Column& column = chunk->columns[stream.column];
      run.column = &column;
      const SampleRange samples = column.find(index);
      run.begin = static_cast<std::uint64_t>(samples.begin);
      run.samples = samples.is_there() ? samples.count() : kOutside;
      run.length = run.samples;
    }
    runs.push_back(run);
  }
}

}  // namespace

std::vector<Run> runs_of(const Located& located, const Plan& plan, const StreamSpec& stream) {
  std::vector<Run> runs;
  const auto find = [&] { find_runs(located, plan, stream, runs); };
  // A corpus that is read in place is one chunk; otherwise the offsets are in memory.
  if (located.chunks.size() == 1) {
    read_offsets(located.chunks[0].chunk->columns[stream.column], find);
  } else {
    find();
  }
  return runs;
}

bool fits(const Chunk& chunk, std::span<const StreamSpec> streams, std::uint32_t member) {
  return std::ranges::all_of(streams, [&](const StreamSpec& stream) {
    if (stream.member != member) return true;
    if (stream.column >= chunk.columns.size()) return false;
    const Column& column = chunk.columns[stream.column];
    const bool variable = column.element_offsets != nullptr;
    return variable == stream.variable && column.num_sequences >= chunk.num_sequences &&
           (column.num_sequences == 0 || column.begin(0) == 0) &&
           (variable || column.sample_elements == stream.sample_elements) &&
           (column.type != stream.type || column.element_bytes == stream.element_bytes);
  });
}

void leave_out_unusable(std::vector<std::vector<Run>>& runs, Plan& plan,
                        std::span<const StreamSpec> streams, const Report& report) {
  // Rows of tables, where this loop would take longer than copying them.
  if (std::ranges::all_of(runs, &std::vector<Run>::empty) &&
      std::ranges::all_of(plan.share, [](const auto& planned) { return planned.size == 1; }))
    return;
  const bool any_counts = std::ranges::any_of(streams, &StreamSpec::counts);
  const LoadedSequences sequences(runs, streams);
  std::vector<std::size_t> left_out;
  for (std::size_t j = 0; j < plan.share.size(); ++j) {
    const LoadedSequence loaded = sequences[j];
    const std::uint64_t planned = planned_size(plan, j);
    if (!loaded.skipped && (loaded.size == planned || (!any_counts && loaded.size != kOutside)))
      continue;
    if (!loaded.skipped) report(disagreement(plan.share[j].sequence, planned, loaded.size));
    left_out.push_back(j);
  }
  if (left_out.empty()) return;
  keep_only(runs, plan,
            [&](std::size_t j) { return !std::ranges::binary_search(left_out, j); });
}

void leave_out(std::uint64_t sequence, std::vector<std::vector<Run>>& runs, Plan& plan) {
  // Entries are overwritten as they move, but only by later entries.
  keep_only(runs, plan, [&](std::size_t j) { return plan.share[j].sequence != sequence; });
}

void check_single(std::span<const Run> runs, const StreamSpec& stream) {
  for (const Run& run : runs) {
    if (run.samples == 1) continue;
    throw DataError(
        "the stream has one sample per sequence, here are " + std::to_string(run.samples),
        {.stream = stream.name, .sequence = run.sequence});
  }
}

void fit_to_plan(std::span<Run> runs, const Plan& plan, const StreamSpec& stream) {
  if (stream.broadcast) {
    repeat(runs, plan, stream);
  } else if (stream.carried) {
    if (!plan.cells.empty()) carry_with_first_pieces(runs, plan);
  } else if (!plan.cells.empty()) {
    cut_to_pieces(runs, plan, stream);
  }
}

}  // namespace sweephand
