#include "index/corpus.hpp"

#include "base/digest.hpp"
#include "base/mix.hpp"

#include <array>
#include <cstddef>
#include <functional>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

[[noreturn]] void refuse() { throw std::invalid_argument("loss masks are no ascending runs"); }

void update(Digest& digest, std::initializer_list<std::uint64_t> words) {
  digest.update(std::span(words.begin(), words.size()));
}

constexpr std::uint64_t kRun = std::uint64_t{1} << 16;

// Every sequence has at least one sample, which bounds the longest of a chunk.
bool may_hold(const ChunkTable& chunks, std::uint64_t chunk, std::uint32_t limit) {
  const std::uint64_t count = chunks.sequences_in(chunk);
  return count != 0 && chunks.samples_in(chunk) - (count - 1) > limit;
}

// Calls visit(first, sizes) for runs of the sequences of chunks that may hold a sequence above
// `limit`: sizes that are not in memory are not read in vain.
template <class Visit>
void walk_chunks(const Corpus& corpus, std::uint32_t limit, const Visit& visit) {
  const ChunkTable& chunks = corpus.chunks;
  std::vector<std::uint32_t> buffer(std::min(kRun, chunks.num_sequences()));
  for (std::uint64_t chunk = 0; chunk < chunks.num_chunks(); ++chunk) {
    if (!may_hold(chunks, chunk, limit)) continue;
    std::uint64_t first = chunks.first_sequence(chunk);
    while (chunk + 1 < chunks.num_chunks() && may_hold(chunks, chunk + 1, limit)) ++chunk;
    const std::uint64_t end = chunks.first_sequence(chunk + 1);
    while (first < end) {
      const std::span sizes = std::span(buffer).first(std::min(kRun, end - first));
      corpus.sizes->read(first, sizes);
      visit(first, std::span<const std::uint32_t>(sizes));
      first += sizes.size();
    }
  }
}

}  // namespace

LossMasks::LossMasks(std::vector<std::int64_t> offsets, std::vector<std::uint32_t> bounds,
                     std::vector<double> weights)
    : offsets_(std::move(offsets)), bounds_(std::move(bounds)), weights_(std::move(weights)) {
  if (offsets_.empty() || offsets_.front() != 0 || !std::ranges::is_sorted(offsets_) ||
      offsets_.back() != static_cast<std::int64_t>(bounds_.size()) ||
      (!weights_.empty() && 2 * weights_.size() != bounds_.size())) {
    refuse();
  }
  for (std::size_t s = 0; s + 1 < offsets_.size(); ++s) {
    const auto begin = static_cast<std::size_t>(offsets_[s]);
    const auto end = static_cast<std::size_t>(offsets_[s + 1]);
    if ((end - begin) % 2 != 0) refuse();
    for (std::size_t j = begin; j < end; j += 2) {
      if (bounds_[j] >= bounds_[j + 1] || (j > begin && bounds_[j - 1] > bounds_[j])) refuse();
    }
  }
}

template <class Visit>
void LossMasks::visit_runs(std::uint64_t sequence, std::uint64_t begin, std::uint64_t end,
                           const Visit& visit) const noexcept {
  const auto last = static_cast<std::size_t>(offsets_[sequence + 1]);
  for (auto j = static_cast<std::size_t>(offsets_[sequence]); j < last; j += 2) {
    const std::uint64_t from = std::max<std::uint64_t>(begin, bounds_[j]);
    const std::uint64_t to = std::min<std::uint64_t>(end, bounds_[j + 1]);
    if (from < to) visit(j, to - from);
  }
}

std::uint64_t LossMasks::count(std::uint64_t sequence, std::uint64_t begin,
                               std::uint64_t end) const noexcept {
  std::uint64_t found = 0;
  visit_runs(sequence, begin, end, [&](std::size_t, std::uint64_t size) { found += size; });
  return found;
}

double LossMasks::weigh(std::uint64_t sequence, std::uint64_t begin,
                        std::uint64_t end) const noexcept {
  if (weights_.empty()) return static_cast<double>(count(sequence, begin, end));
  double sum = 0;
  visit_runs(sequence, begin, end, [&](std::size_t j, std::uint64_t size) {
    // Not by a product, which is rounded otherwise.
    for (; size != 0; --size) sum += weights_[j / 2];
  });
  return sum;
}

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

LongSequences find_long(const Corpus& corpus, std::uint32_t limit) {
  LongSequences found;
  if (const std::uint32_t common = corpus.sizes->common(); common != 0) {
    if (common <= limit) return found;
    return {.num_sequences = corpus.chunks.num_sequences(),
            .num_samples = corpus.chunks.num_samples(),
            .size = common};
  }
  walk_chunks(corpus, limit, [&](std::uint64_t first, std::span<const std::uint32_t> sizes) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (sizes[i] <= limit) continue;
      ++found.num_sequences;
      found.num_samples += sizes[i];
      if (sizes[i] <= found.size) continue;
      found.size = sizes[i];
      found.sequence = first + i;
    }
  });
  return found;
}

}  // namespace sweephand
