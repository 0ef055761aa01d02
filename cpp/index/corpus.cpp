#include "index/corpus.hpp"

#include <stdexcept>
#include <string>

namespace sweephand {

void check(const Corpus& corpus) {
  const ChunkTable& chunks = corpus.chunks;
  const auto count = corpus.sizes->count();
  if (count && *count != chunks.num_sequences()) {
    throw std::invalid_argument("there are " + std::to_string(*count) + " sizes for " +
                                std::to_string(chunks.num_sequences()) + " sequences");
  }
  if (corpus.masks != nullptr && corpus.masks->num_sequences() != chunks.num_sequences()) {
    throw std::invalid_argument("there are loss masks of " +
                                std::to_string(corpus.masks->num_sequences()) + " of " +
                                std::to_string(chunks.num_sequences()) + " sequences");
  }
  const std::uint64_t common = corpus.sizes->common();
  if (common == 0) return;
  for (std::uint64_t chunk = 0; chunk < chunks.num_chunks();
       chunk += chunks.step_of_different()) {
    const std::uint64_t samples = chunks.samples_in(chunk);
    const std::uint64_t sequences = chunks.sequences_in(chunk);
    if (samples % common == 0 && samples / common == sequences) continue;
    throw std::invalid_argument(
        "chunk " + std::to_string(chunk) + " has " + std::to_string(samples) + " samples in " +
        std::to_string(sequences) + " sequences of " + std::to_string(common));
  }
}

}  // namespace sweephand
