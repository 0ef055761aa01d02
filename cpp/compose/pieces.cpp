#include "compose/pieces.hpp"

#include "base/error.hpp"
#include "base/search.hpp"
#include "order/permutation.hpp"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sweephand {

void refuse_changed_sizes() {
  throw StaleError(
      "the sizes of sequences are not those that they were when they were planned");
}

std::uint64_t Pack::row_at(std::uint64_t start) const {
  const auto found = std::ranges::lower_bound(starts, start);
  const auto row = static_cast<std::uint64_t>(found - starts.begin());
  if (row >= num_rows() || *found != start) refuse_changed_sizes();
  return row;
}

Pack::Place Pack::find(std::uint64_t sequence, std::uint16_t sweep) const {
  Place place;
  for (std::uint64_t i = 0; i < pieces.size(); ++i) {
    if (i == ends[place.row + 1]) place = {.row = place.row + 1, .column = 0};
    const Piece& piece = pieces[i];
    if (piece.sequence == sequence && piece.sweep == sweep && piece.first == 0) return place;
    place.column += piece.size;
  }
  refuse_changed_sizes();
}

void Pieces::reserve(std::uint64_t num_sequences) {
  pieces_.reserve(pieces_.size() + num_sequences);
  sizes_.reserve(sizes_.size() + num_sequences);
  block_of_.reserve(block_of_.size() + num_sequences);
}

void Pieces::add(const PlannedSequence& planned, std::uint32_t block) {
  if (planned.size > packing_.row_length && !packing_.split_long) {
    throw std::invalid_argument("sequence " + std::to_string(planned.sequence) + " has " +
                                std::to_string(planned.size) + " samples, more than a row of " +
                                std::to_string(packing_.row_length));
  }
  const std::uint64_t count = (planned.size - 1) / packing_.row_length + std::uint64_t{1};
  if (count >= std::numeric_limits<std::uint32_t>::max() - sizes_.size()) {
    throw std::invalid_argument("a pack may have at most 2^32 - 2 pieces; take longer rows");
  }
  for (std::size_t i = 0; i < counts_.size(); ++i) {
    std::uint32_t own = 0;
    packing_.limits[i].counts->read(planned.sequence, {&own, 1});
    counts_[i].push_back(std::min(own, packing_.limits[i].most));
    counts_[i].resize(counts_[i].size() + count - 1);  // the other pieces carry no items
  }
  for (std::uint32_t first = 0; first < planned.size;) {
    const std::uint32_t size = std::min(planned.size - first, packing_.row_length);
    pieces_.push_back({.sequence = planned.sequence & (~std::uint64_t{0} >> 17),
                       .sweep = planned.sweep,
                       .goes_on = first + size < planned.size,
                       .first = first,
                       .size = size});
    sizes_.push_back(size);
    block_of_.push_back(block);
    first += size;
  }
}

std::unique_ptr<Pack> Pieces::in_order(std::uint64_t start) {
  const std::vector<Load> loads = this->loads();
  return lay_in_order(pack({.sizes = sizes_, .loads = loads}, Fill::kInOrder,
                           packing_.row_length, packing_.look_ahead),
                      start);
}

std::vector<Load> Pieces::loads() const {
  std::vector<Load> loads;
  for (std::size_t i = 0; i < counts_.size(); ++i)
    loads.push_back({.counts = counts_[i], .limit = packing_.limits[i].most});
  return loads;
}

std::unique_ptr<Pack> Pieces::of_mixture(std::span<const std::uint64_t> first_sequences,
                                         std::uint64_t start) {
  std::vector<std::uint16_t> corpora;
  std::vector<std::uint16_t> sweeps;
  corpora.reserve(pieces_.size());
  sweeps.reserve(pieces_.size());
  const EvenGuess guess(first_sequences.size() - 1, first_sequences.back());
  for (const Piece& piece : pieces_) {
    corpora.push_back(static_cast<std::uint16_t>(guess.find(first_sequences, piece.sequence)));
    sweeps.push_back(static_cast<std::uint16_t>(piece.sweep));
  }
  const std::vector<Load> loads = this->loads();
  const PackItems mixed{.sizes = sizes_, .loads = loads, .corpora = corpora, .sweeps = sweeps};
  return lay_in_order(pack(mixed, Fill::kMixed, packing_.row_length, packing_.look_ahead),
                      start);
}

std::unique_ptr<Pack> Pieces::shuffled(std::uint64_t key, std::uint64_t start) {
  const std::vector<Load> loads = this->loads();
  const Rows rows = pack({.sizes = sizes_, .loads = loads}, Fill::kLongestFirst,
                         packing_.row_length, packing_.look_ahead);
  std::vector<std::uint64_t> order(rows.ends.size());
  Permutation(order.size(), key).fill(0, order);
  return lay(rows, order, start);
}

std::unique_ptr<Pack> Pieces::lay_in_order(const Rows& rows, std::uint64_t start) {
  std::vector<std::uint64_t> order(rows.ends.size());
  std::iota(order.begin(), order.end(), std::uint64_t{0});
  return lay(rows, order, start);
}

// Row q of the pack is row order[q] of `rows`.
std::unique_ptr<Pack> Pieces::lay(const Rows& rows, std::span<const std::uint64_t> order,
                                  std::uint64_t start) {
  auto pack = std::make_unique<Pack>();
  for (auto& block : blocks_) pack->blocks.add(std::move(block));
  pack->pieces.reserve(pieces_.size());
  pack->ends.reserve(order.size() + 1);
  pack->starts.reserve(order.size() + 1);
  pack->ends.push_back(0);
  pack->starts.push_back(start);
  for (std::uint64_t q = 0; q < order.size(); ++q) {
    const std::uint64_t row = order[q];
    for (std::uint32_t i = row == 0 ? 0 : rows.ends[row - 1]; i < rows.ends[row]; ++i) {
      const Piece& piece = pieces_[rows.members[i]];
      pack->pieces.push_back(piece);
      start += piece.size;
      pack->blocks.need(block_of_[rows.members[i]], q);
    }
    pack->ends.push_back(pack->pieces.size());
    pack->starts.push_back(start);
  }
  return pack;
}

}  // namespace sweephand
