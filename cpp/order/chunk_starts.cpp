#include "order/chunk_starts.hpp"

#include "base/search.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace sweephand {

ChunkStarts::ChunkStarts(const ChunkTable& chunks, const Permutation& order)
    : chunks_(&chunks),
      order_(&order),
      begins_((chunks.num_chunks() + kPlaces - 1) / kPlaces + 1) {
  add_samples();
  std::exclusive_scan(begins_.begin(), begins_.end(), begins_.begin(), std::uint64_t{0});
}

// Adds up each group. Adjacent chunks are visited in order if their places are known: the table
// may be larger than the processor's cache.
void ChunkStarts::add_samples() {
  const std::uint64_t num_chunks = chunks_->num_chunks();
  std::array<std::uint64_t, 256> buffer{};
  for (std::uint64_t first = 0; first < num_chunks; first += buffer.size()) {
    const std::span part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), num_chunks - first));
    if (order_->is_table()) {
      order_->fill(first, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        begins_[(first + i) / kPlaces] += chunks_->samples_in(part[i]);
      }
    } else {
      order_->places(first, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        begins_[part[i] / kPlaces] += chunks_->samples_in(first + i);
      }
    }
  }
}

std::uint64_t ChunkStarts::begin(std::uint64_t place) const {
  std::array<std::uint64_t, kPlaces> buffer{};
  const std::span before = std::span(buffer).first(place % kPlaces);
  order_->fill(place - before.size(), before);
  std::uint64_t begin = begins_[place / kPlaces];
  for (const std::uint64_t chunk : before) begin += chunks_->samples_in(chunk);
  return begin;
}

std::uint64_t ChunkStarts::place_at(std::uint64_t sample) const {
  const std::uint64_t num_chunks = chunks_->num_chunks();
  if (sample >= begins_.back()) return num_chunks;
  const std::uint64_t number = last_at_or_before(begins_, sample);
  std::array<std::uint64_t, kPlaces> buffer{};
  std::uint64_t found = number * kPlaces;
  const std::span chunks = std::span(buffer).first(std::min(kPlaces, num_chunks - found));
  order_->fill(found, chunks);
  std::uint64_t end = begins_[number];
  for (const std::uint64_t chunk : chunks) {
    end += chunks_->samples_in(chunk);
    if (end > sample) break;
    ++found;
  }
  return found;
}

}  // namespace sweephand
