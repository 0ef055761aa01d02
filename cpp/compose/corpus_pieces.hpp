// The pieces of each corpus of a mixture, and which of them may come next into a row.
#pragma once

#include "compose/bands.hpp"
#include "compose/holders.hpp"
#include "compose/mixed_rows.hpp"
#include "compose/sight.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace sweephand {

// A corpus among those that share Holders, which may be null.
struct Holder {
  Holders* all = nullptr;
  std::uint32_t corpus = 0;
};

// As Bands, of sizes alone: less memory, the main cost with many corpora.
class SizesInSight {
 public:
  SizesInSight(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
               std::span<const Load> /*loads*/, Holder holder)
      : sizes_(sizes),
        row_length_(row_length),
        sight_(sizes, row_length),
        in_sight_(std::size_t{row_length} + 2),
        holder_(holder) {}

  std::uint64_t count() const noexcept { return sight_.count(); }
  void add(std::uint32_t place) {
    sight_.add(place);
    in_sight_.insert(sizes_[place]);
    if (holder_.all != nullptr) holder_.all->insert(sizes_[place], holder_.corpus);
  }
  std::uint32_t oldest() { return sight_.first_of(sight_.oldest()); }
  void take(std::uint32_t place) {
    const std::uint32_t rank = sight_.rank(place);
    sight_.take(rank);
    const bool stays = sight_.has(rank);
    in_sight_.erase(sizes_[place], stays);
    if (holder_.all != nullptr && !stays) holder_.all->erase(sizes_[place], holder_.corpus);
  }
  std::uint32_t measure(std::uint32_t place, std::size_t /*measure*/) const {
    return sizes_[place];
  }
  bool fits(std::uint32_t place, std::span<const std::uint32_t> room) const {
    return sizes_[place] <= room[0];
  }
  // Where that is in the list, place_of says: most offers are not taken.
  Bands::Offer largest(std::span<const std::uint32_t> room) const {
    const std::uint32_t size = in_sight_.largest_below(room[0] + 1);
    if (size == BitTree::kNone) return {};
    return {.place = 0, .own = size, .limit = row_length_};
  }
  std::uint32_t place_of(const Bands::Offer& offer) const {
    return sight_.first_of(sight_.longest(offer.own));
  }

 private:
  std::span<const std::uint32_t> sizes_;
  std::uint32_t row_length_;
  Sight sight_;
  BitTree in_sight_;  // sizes, of which a row asks all corpora: fewer looks than at ranks
  Holder holder_;
};

// Bands, which no other corpus has to know of.
class BandsInSight : public Bands {
 public:
  BandsInSight(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
               std::span<const Load> loads, Holder /*holder*/)
      : Bands(sizes, row_length, loads) {}
  static std::uint32_t place_of(const Offer& offer) { return offer.place; }
};

// The pieces of one corpus, and which of them may come next.
template <class InSight>
class CorpusPieces {
 public:
  // Before they are added: so many pieces.
  void reserve(std::size_t num_pieces) {
    places_.reserve(num_pieces);
    sizes_.reserve(num_pieces);
    sweeps_.reserve(num_pieces);
  }

  void add(const MixedPieces& pieces, std::uint32_t place) {
    counts_.resize(pieces.loads.size());
    for (std::size_t i = 0; i < counts_.size(); ++i)
      counts_[i].push_back(pieces.loads[i].counts[place]);
    places_.push_back(place);
    sizes_.push_back(pieces.sizes[place]);
    sweeps_.push_back(pieces.sweeps[place]);
  }

  // After all pieces are added.
  void open(std::span<const Load> loads, std::uint32_t row_length, std::uint64_t look_ahead,
            Holder holder) {
    if (sizes_.empty()) return;
    std::vector<Load> own;
    for (std::size_t i = 0; i < loads.size(); ++i)
      own.push_back({.counts = counts_[i], .limit = loads[i].limit});
    look_ahead_ = look_ahead;
    sight_ = std::make_unique<InSight>(sizes_, row_length, own, holder);
    top_up();
  }

  // The corpus may deliver so many samples more.
  void allow(std::uint32_t size) { allowed_ += size; }

  // It may deliver a piece; the last one may be more than is allowed.
  bool is_allowed() const { return allowed_ > 0; }

  // The place among the pieces of the corpus of the oldest in sight, and the largest offer to a
  // row, whose place is known to place_of_offer. REQUIRES: is_allowed(), so that there is one
  std::uint32_t oldest() { return sight_->oldest(); }
  Bands::Offer largest(std::span<const std::uint32_t> room) const {
    return sight_->largest(room);
  }

  std::uint32_t place_of_offer(const Bands::Offer& offer) const {
    return sight_->place_of(offer);
  }

  std::uint32_t place_in_list(std::uint32_t own) const { return places_[own]; }

  bool fits(std::uint32_t own, std::span<const std::uint32_t> room) const {
    return sight_->fits(own, room);
  }

  void take(std::uint32_t own, std::span<std::uint32_t> room) {
    for (std::size_t m = 0; m < room.size(); ++m) room[m] -= sight_->measure(own, m);
    sight_->take(own);
    allowed_ -= sizes_[own];
    top_up();
  }

 private:
  // No piece of a sweep comes into sight before the last one of its predecessor is taken.
  void top_up() {
    if (next_ < sizes_.size() && sight_->count() == 0) sweep_ = sweeps_[next_];
    while (sight_->count() < look_ahead_ && next_ < sizes_.size() && sweeps_[next_] == sweep_) {
      sight_->add(next_++);
    }
  }

  std::vector<std::uint32_t> places_;
  std::vector<std::uint32_t> sizes_;
  std::vector<std::vector<std::uint32_t>> counts_;  // of each load
  std::vector<std::uint16_t> sweeps_;
  std::unique_ptr<InSight> sight_;  // null if there is no piece
  std::uint64_t look_ahead_ = 0;
  std::uint32_t next_ = 0;   // the first that was not in sight
  std::uint16_t sweep_ = 0;  // of all in sight
  std::int64_t allowed_ = 0;
};

}  // namespace sweephand
