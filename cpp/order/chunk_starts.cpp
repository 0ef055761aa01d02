#include "order/chunk_starts.hpp"

#include "base/search.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <span>

namespace sweephand {

ChunkStarts::ChunkStarts(const ChunkTable& chunks, const Permutation& order)
    : chunks_(&chunks), order_(&order), begins_(group_sums()) {
  std::exclusive_scan(begins_.begin(), begins_.end(), begins_.begin(), std::uint64_t{0});
}

// The samples of each group, and a 0. Chunks that lie side by side are looked at one after the
// other where their places are known: the table may be larger than the processor's cache.
std::vector<std::uint64_t> ChunkStarts::group_sums() const {
  const std::uint64_t num_chunks = chunks_->num_chunks();
  std::vector<std::uint64_t> sums((num_chunks + kPlaces - 1) / kPlaces + 1);
  std::array<std::uint64_t, kPlaces> buffer{};
  for (std::uint64_t first = 0; first < num_chunks; first += kPlaces) {
    const std::span part = std::span(buffer).first(std::min(kPlaces, num_chunks - first));
    if (order_->is_table()) {
      order_->fill(first, part);
      for (const std::uint64_t chunk : part)
        sums[first / kPlaces] += chunks_->samples_in(chunk);
    } else {
      order_->places(first, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        sums[part[i] / kPlaces] += chunks_->samples_in(first + i);
      }
    }
  }
  return sums;
}

// Where each of its places begins, and the end.
const std::vector<std::uint64_t>& ChunkStarts::group(std::uint64_t number) {
  if (const auto known = groups_.find(number); known != groups_.end()) return known->second;
  if (groups_.size() == kMostGroups) groups_.clear();
  std::vector<std::uint64_t>& begins = groups_[number];
  const std::uint64_t first = number * kPlaces;
  begins.resize(std::min(kPlaces, chunks_->num_chunks() - first) + 1);
  const std::span chunks = std::span(begins).subspan(1);
  order_->fill(first, chunks);
  begins[0] = begins_[number];
  for (std::size_t i = 1; i < begins.size(); ++i) {
    begins[i] = begins[i - 1] + chunks_->samples_in(begins[i]);
  }
  return begins;
}

std::uint64_t ChunkStarts::begin(std::uint64_t place) {
  if (place % kPlaces == 0) return begins_[place / kPlaces];
  return group(place / kPlaces)[place % kPlaces];
}

std::uint64_t ChunkStarts::place_at(std::uint64_t sample) {
  if (sample >= begins_.back()) return chunks_->num_chunks();
  const std::uint64_t number = last_at_or_before(begins_, sample);
  return number * kPlaces + last_at_or_before(group(number), sample);
}

}  // namespace sweephand
