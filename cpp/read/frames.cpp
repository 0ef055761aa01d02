#include "read/frames.hpp"

#include "base/error.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {

FrameDeserializer::FrameDeserializer(std::shared_ptr<Deserializer> sequences,
                                     std::vector<std::string> names)
    : sequences_(std::move(sequences)), names_(std::move(names)) {
  if (sequences_->access() == Access::kSequences) {
    throw std::invalid_argument("frames need data in chunks; these are read by sequence");
  }
}

void FrameDeserializer::refuse_unequal(const Chunk& chunk) const {
  const Column& first = chunk.columns[0];
  for (std::size_t c = 1; c < chunk.columns.size(); ++c) {
    const Column& column = chunk.columns[c];
    if (column.sample_offsets == first.sample_offsets) continue;
    for (std::uint64_t s = 0; s < chunk.num_sequences; ++s) {
      if (column.end(s) == first.end(s)) continue;
      throw DataError("frames need streams of equal lengths: here are " +
                          std::to_string(column.end(s) - column.begin(s)) + " samples, and " +
                          std::to_string(first.end(s) - first.begin(s)) + " in stream '" +
                          names_[0] + "'",
                      {.stream = names_[c], .sequence = s});
    }
  }
}

std::shared_ptr<const Chunk> FrameDeserializer::load(std::uint64_t chunk) {
  const std::shared_ptr<const Chunk> sequences = sequences_->load(chunk);
  refuse_unequal(*sequences);
  auto frames = std::make_shared<Chunk>(*sequences);
  frames->num_sequences =
      sequences->num_sequences == 0
          ? 0
          : static_cast<std::uint64_t>(sequences->columns[0].end(sequences->num_sequences - 1));
  frames->skipped.clear();
  for (const std::uint64_t s : sequences->skipped) {
    const Column& first = sequences->columns[0];
    for (std::int64_t i = first.begin(s); i < first.end(s); ++i) {
      frames->skipped.push_back(static_cast<std::uint64_t>(i));
    }
  }
  for (Column& column : frames->columns) column.sample_offsets = nullptr;
  frames->owner = sequences;
  return frames;
}

}  // namespace sweephand
