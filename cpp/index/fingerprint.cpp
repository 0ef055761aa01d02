#include "index/fingerprint.hpp"

#include "base/digest.hpp"
#include "base/mix.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace sweephand {
namespace {

void update(Digest& digest, std::initializer_list<std::uint64_t> words) {
  digest.update(std::span(words.begin(), words.size()));
}

}  // namespace

std::string fingerprint_sizes(const Corpus& corpus) {
  const std::uint64_t count = corpus.chunks.num_sequences();
  const std::uint32_t common = corpus.sizes->common();
  Digest digest;
  update(digest, {count, corpus.chunks.num_samples(), common});
  if (common != 0) return digest.hex();
  // Small enough to stay in the processor's nearest cache.
  std::array<std::uint32_t, 1024> sizes{};
  std::array<std::uint64_t, 1024> words{};
  for (std::uint64_t first = 0; first < count; first += sizes.size()) {
    const std::span part =
        std::span(sizes).first(std::min<std::uint64_t>(sizes.size(), count - first));
    corpus.sizes->read(first, part);
    std::copy(part.begin(), part.end(), words.begin());
    digest.update(std::span<const std::uint64_t>(words).first(part.size()));
  }
  return digest.hex();
}

std::string fingerprint_chunks(const ChunkTable& chunks) {
  Digest digest;
  for (std::uint64_t chunk = 0; chunk < chunks.num_chunks(); ++chunk) {
    update(digest, {chunks.sequences_in(chunk), chunks.samples_in(chunk)});
  }
  return digest.hex();
}

std::vector<std::uint64_t> fingerprint_runs(std::span<const std::int64_t> sizes,
                                            std::span<const std::int64_t> starts) {
  std::vector<std::uint64_t> keys(starts.size() - 1);
  for (std::size_t run = 0; run < keys.size(); ++run) {
    // A sum, so that no size waits for the previous size.
    std::uint64_t place = 0;
    for (std::int64_t i = starts[run]; i < starts[run + 1]; ++i) {
      place += kGolden;
      keys[run] += mix64(place + static_cast<std::uint64_t>(sizes[i]));
    }
  }
  return keys;
}

}  // namespace sweephand
