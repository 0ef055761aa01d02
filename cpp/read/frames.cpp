#include "read/frames.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kRun = std::uint64_t{1}
                               << 16;  // sequences whose sizes are read at once

bool has_samples(const Column& column, std::uint64_t sequence, std::uint32_t size) {
  const SampleRange samples = column.find(sequence);
  return samples.is_there() && samples.count() == size;
}

// True if the sequence has the planned `size` samples in every stream.
bool is_as_planned(const Chunk& chunk, std::uint64_t sequence, std::uint32_t size) {
  return std::ranges::all_of(
      chunk.columns, [&](const Column& column) { return has_samples(column, sequence, size); });
}

// The offsets of frames if sequences do not all have their planned samples: the frames of such
// a sequence are skipped, and its last frame takes the rest of its samples.
//
//   planned 2, 3, 1 | there 2, 1, 1 | frames [0 1] [2 2 2] [3] | offsets 0 1 2 2 2 3 4
std::vector<std::int64_t> frame_offsets(const Column& column,
                                        std::span<const std::uint32_t> sizes) {
  std::vector<std::int64_t> offsets;
  for (std::uint64_t s = 0; s < sizes.size(); ++s) {
    const std::int64_t begin = column.begin(s);
    const bool as_planned = column.end(s) - begin == std::int64_t{sizes[s]};
    for (std::uint32_t i = 0; i < sizes[s]; ++i)
      offsets.push_back(begin + (as_planned ? std::int64_t{i} : 0));
  }
  offsets.push_back(sizes.empty() ? 0 : column.end(sizes.size() - 1));
  return offsets;
}

bool is_whole(const Chunk& chunk, std::uint64_t num_sequences) {
  return chunk.num_sequences == num_sequences &&
         std::ranges::all_of(chunk.columns, [&](const Column& column) {
           return column.num_sequences >= num_sequences;
         });
}

}  // namespace

FrameDeserializer::FrameDeserializer(std::shared_ptr<Deserializer> sequences,
                                     std::vector<std::string> names, Corpus corpus,
                                     Report report)
    : sequences_(std::move(sequences)),
      names_(std::move(names)),
      corpus_(std::move(corpus)),
      report_(std::move(report)) {
  if (sequences_->access() == Access::kSequences) {
    throw std::invalid_argument("frames need data in chunks; these are read by sequence");
  }
}

FrameDeserializer::Range FrameDeserializer::planned(std::uint64_t chunk) const {
  if (access() == Access::kResident) return {0, corpus_.chunks.num_sequences()};
  return {corpus_.chunks.first_sequence(chunk), corpus_.chunks.sequences_in(chunk)};
}

// The planned sizes of `out.size()` sequences; if they are not in memory, the sizes found, as
// only the samples of the chunk were planned.
void FrameDeserializer::read_sizes(const Chunk& chunk, const Range& range, std::uint64_t from,
                                   std::span<std::uint32_t> out) const {
  if (corpus_.sizes->in_memory()) {
    corpus_.sizes->read(range.first + from, out);
    return;
  }
  if (chunk.skipped.size() == range.count) {  // any sizes will do that add up to the chunk
    std::ranges::fill(out, 1U);
    const std::uint64_t others = range.count - 1;
    const std::uint64_t planned =
        corpus_.chunks.samples_in(corpus_.chunks.chunk_of(range.first));
    if (from == 0) out[0] = static_cast<std::uint32_t>(planned - others);
    return;
  }
  const Column& first = chunk.columns[0];
  for (std::uint64_t i = 0; i < out.size(); ++i) {
    const std::uint64_t s = from + i;
    const SampleRange samples = first.find(s);
    out[i] = samples.is_there() ? static_cast<std::uint32_t>(samples.count()) : 0;
  }
}

void FrameDeserializer::refuse_unequal(const Chunk& chunk, std::uint64_t sequence) const {
  const Column& first = chunk.columns[0];
  for (std::size_t c = 1; c < chunk.columns.size(); ++c) {
    const Column& column = chunk.columns[c];
    if (column.end(sequence) - column.begin(sequence) ==
        first.end(sequence) - first.begin(sequence))
      continue;
    throw DataError("frames need streams of equal lengths: here are " +
                        std::to_string(column.end(sequence) - column.begin(sequence)) +
                        " samples, and " +
                        std::to_string(first.end(sequence) - first.begin(sequence)) +
                        " in stream '" + names_[0] + "'",
                    {.stream = names_[c], .sequence = sequence});
  }
}

void FrameDeserializer::report(const Chunk& chunk, std::uint64_t sequence, std::uint32_t size,
                               const Place& place) const {
  if (std::ranges::any_of(chunk.columns, [&](const Column& column) {
        return has_samples(column, sequence, size);
      }))
    refuse_unequal(chunk, sequence);
  report_(StaleError("the sequence does not have the " + std::to_string(size) +
                         " samples that it had when it was measured; the data changed",
                     place));
}

// Adds the frames of a sequence, and returns true if it has its planned size.
bool FrameDeserializer::add_frames(const Chunk& chunk, std::uint64_t sequence,
                                   std::uint32_t size, const Place& place,
                                   Chunk& frames) const {
  const bool is_skipped = std::ranges::binary_search(chunk.skipped, sequence);
  const bool as_planned = is_as_planned(chunk, sequence, size);
  if (!as_planned && !is_skipped) report(chunk, sequence, size, place);
  const std::uint64_t first = frames.num_sequences;
  frames.num_sequences += size;
  if (is_skipped || !as_planned) {
    for (std::uint64_t f = first; f < frames.num_sequences; ++f) frames.skipped.push_back(f);
  }
  return as_planned;
}

// Adds the frames of all sequences, and returns true if all have their planned sizes.
bool FrameDeserializer::add_frames(const Chunk& chunk, std::uint64_t number, const Range& range,
                                   Chunk& frames) const {
  bool as_planned = std::ranges::all_of(chunk.columns, [&](const Column& column) {
    return range.count == 0 || column.begin(0) == 0;
  });
  std::vector<std::uint32_t> sizes(std::min(kRun, range.count));
  for (std::uint64_t from = 0; from < range.count; from += kRun) {
    const std::span run = std::span(sizes).first(std::min(kRun, range.count - from));
    read_sizes(chunk, range, from, run);
    for (std::uint64_t i = 0; i < run.size(); ++i) {
      const Place place{.chunk = number, .sequence = range.first + from + i};
      as_planned = add_frames(chunk, from + i, run[i], place, frames) && as_planned;
    }
  }
  return as_planned;
}

std::shared_ptr<const Chunk> FrameDeserializer::load(std::uint64_t chunk) {
  const std::shared_ptr<const Chunk> sequences = sequences_->load(chunk);
  const Range range = planned(chunk);
  auto frames = std::make_shared<Chunk>(*sequences);
  frames->skipped.clear();
  frames->num_sequences = 0;
  // Samples cannot be matched to frames: the chunk stays empty, which the engine's check
  // reports.
  if (!is_whole(*sequences, range.count)) return frames;
  if (add_frames(*sequences, chunk, range, *frames)) {
    for (Column& column : frames->columns) {
      column.sample_offsets = nullptr;
      column.mapped_offsets = nullptr;
      column.num_sequences = column.num_samples;
    }
    return frames;  // which holds the owner of the sequences
  }
  std::vector<std::uint32_t> sizes(range.count);
  read_sizes(*sequences, range, 0, sizes);
  using Offsets = std::vector<std::vector<std::int64_t>>;
  const auto owner = std::make_shared<std::pair<std::shared_ptr<const Chunk>, Offsets>>();
  owner->first = sequences;
  for (Column& column : frames->columns) {
    owner->second.push_back(frame_offsets(column, sizes));
    column.sample_offsets = owner->second.back().data();
    column.mapped_offsets = nullptr;
    column.num_sequences = frames->num_sequences;
  }
  frames->owner = owner;
  return frames;
}

}  // namespace sweephand
