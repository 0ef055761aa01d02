#include "compose/mixed_rows.hpp"

#include "compose/sight.hpp"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace sweephand {
namespace {

// The pieces of one corpus, and which of them may come next.
class CorpusPieces {
 public:
  void add(std::uint32_t place, std::uint32_t size, std::uint16_t sweep) {
    places_.push_back(place);
    sizes_.push_back(size);
    sweeps_.push_back(sweep);
  }

  // After all pieces are added.
  void open(std::uint32_t row_length, std::uint64_t look_ahead) {
    if (sizes_.empty()) return;
    look_ahead_ = look_ahead;
    sight_ = std::make_unique<Sight>(sizes_, row_length);
    top_up();
  }

  // The corpus may deliver so many samples more.
  void allow(std::uint32_t size) { allowed_ += size; }

  // It may deliver a piece; the last one may be more than is allowed.
  bool is_allowed() const { return allowed_ > 0; }

  // Ranks of pieces in sight: of the oldest, and of the longest that fits, or Sight::kNone.
  // REQUIRES: is_allowed(), so that there is one
  std::uint32_t oldest() { return sight_->oldest(); }
  std::uint32_t longest(std::uint32_t room) const { return sight_->longest(room); }

  std::uint32_t size(std::uint32_t rank) const { return sight_->size(rank); }
  std::uint32_t place(std::uint32_t rank) const { return places_[sight_->first_of(rank)]; }

  void take(std::uint32_t rank) {
    sight_->take(rank);
    allowed_ -= sight_->size(rank);
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
  std::vector<std::uint16_t> sweeps_;
  std::unique_ptr<Sight> sight_;  // null if there is no piece
  std::uint64_t look_ahead_ = 0;
  std::uint32_t next_ = 0;   // the first that was not in sight
  std::uint16_t sweep_ = 0;  // of all in sight
  std::int64_t allowed_ = 0;
};

// A piece that a corpus has to offer. None has size 0.
struct Choice {
  std::uint32_t rank = 0;
  std::uint32_t size = 0;
  std::uint32_t place = 0;
};

Choice choice(const CorpusPieces& corpus, std::uint32_t rank) {
  if (rank == Sight::kNone) return {};
  return {.rank = rank, .size = corpus.size(rank), .place = corpus.place(rank)};
}

// A corpus that may deliver, and what it offers to the open row.
struct Offer {
  CorpusPieces* corpus;
  Choice oldest;
  std::optional<Choice> longest;  // that fits; absent before it is asked for
};

class MixedPacker {
 public:
  MixedPacker(const MixedPieces& pieces, std::uint32_t row_length, std::uint64_t look_ahead)
      : pieces_(pieces), row_length_(row_length) {
    corpora_.resize(*std::ranges::max_element(pieces.corpora) + std::size_t{1});
    for (std::uint32_t place = 0; place < pieces.sizes.size(); ++place) {
      corpora_[pieces.corpora[place]].add(place, pieces.sizes[place], pieces.sweeps[place]);
    }
    for (CorpusPieces& corpus : corpora_) corpus.open(row_length, look_ahead);
  }

  Rows pack() {
    Rows rows;
    rows.members.reserve(pieces_.sizes.size());
    while (rows.members.size() < pieces_.sizes.size()) {
      for (Offer& offer : offers_) offer.longest.reset();
      // Two rows from here on: what is taken beyond the first one is made up for by the next.
      allow_up_to(delivered_ + 2 * std::uint64_t{row_length_});
      const auto begin = static_cast<std::ptrdiff_t>(rows.members.size());
      delivered_ += fill(rows.members);
      std::sort(rows.members.begin() + begin, rows.members.end());
      rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
    }
    return rows;
  }

 private:
  // Allows every corpus the samples of its pieces that begin before `end`.
  void allow_up_to(std::uint64_t end) {
    while (next_ < pieces_.sizes.size() && begin_of_next_ < end) {
      CorpusPieces& corpus = corpora_[pieces_.corpora[next_]];
      const bool was_allowed = corpus.is_allowed();
      corpus.allow(pieces_.sizes[next_]);
      begin_of_next_ += pieces_.sizes[next_++];
      if (was_allowed || !corpus.is_allowed()) continue;
      offers_.push_back({.corpus = &corpus, .oldest = choice(corpus, corpus.oldest())});
    }
  }

  // The samples of one row, and its members in the order in which they are taken.
  std::uint32_t fill(std::vector<std::uint32_t>& members) {
    std::uint32_t room = row_length_;
    const auto take = [&](std::size_t i, Choice taken) {
      members.push_back(taken.place);
      room -= taken.size;
      Offer& offer = offers_[i];
      offer.corpus->take(taken.rank);
      if (offer.corpus->is_allowed()) {
        offer = {.corpus = offer.corpus,
                 .oldest = choice(*offer.corpus, offer.corpus->oldest())};
      } else {
        offer = offers_.back();
        offers_.pop_back();
      }
    };
    while (!offers_.empty()) {
      const std::size_t i = find_oldest();
      if (offers_[i].oldest.size > room) break;
      take(i, offers_[i].oldest);
    }
    while (room > 0) {
      const auto [i, piece] = find_longest(room);
      if (i == offers_.size()) break;
      take(i, piece);
    }
    return row_length_ - room;
  }

  // The offer with the oldest piece. REQUIRES: there is one
  std::size_t find_oldest() const {
    std::size_t found = 0;
    for (std::size_t i = 1; i < offers_.size(); ++i) {
      if (offers_[i].oldest.place < offers_[found].oldest.place) found = i;
    }
    return found;
  }

  struct Found {
    std::size_t offer = 0;
    Choice piece;
  };

  // The offer with the longest piece that fits, the oldest among equals; the number of offers
  // if none fits.
  Found find_longest(std::uint32_t room) {
    Found found{.offer = offers_.size()};
    for (std::size_t i = 0; i < offers_.size(); ++i) {
      Offer& offer = offers_[i];
      // The longest that fitted is still that if it fits into less room.
      if (!offer.longest || offer.longest->size > room)
        offer.longest = choice(*offer.corpus, offer.corpus->longest(room));
      const Choice& own = *offer.longest;
      if (own.size < found.piece.size || own.size == 0) continue;
      if (own.size == found.piece.size && own.place > found.piece.place) continue;
      found = {.offer = i, .piece = own};
    }
    return found;
  }

  const MixedPieces& pieces_;
  std::uint32_t row_length_;
  std::vector<CorpusPieces> corpora_;
  std::vector<Offer> offers_;
  std::uint32_t next_ = 0;           // the first piece that is not allowed yet
  std::uint64_t begin_of_next_ = 0;  // in the list
  std::uint64_t delivered_ = 0;
};

}  // namespace

Rows pack_mixture(const MixedPieces& pieces, std::uint32_t row_length,
                  std::uint64_t look_ahead) {
  if (pieces.sizes.empty()) return {};
  return MixedPacker(pieces, row_length, look_ahead).pack();
}

}  // namespace sweephand
