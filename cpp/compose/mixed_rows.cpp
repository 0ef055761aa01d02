// Rows of several corpora that keep each corpus' sweeps and share.
#include "compose/pack.hpp"
#include "compose/sight.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

namespace sweephand {
namespace {

// The pieces of one corpus, and which of them may come next.
class CorpusPieces {
 public:
  // Before they are added: so many pieces.
  void reserve(std::size_t num_pieces) {
    places_.reserve(num_pieces);
    sizes_.reserve(num_pieces);
    sweeps_.reserve(num_pieces);
  }

  void add(const PackItems& pieces, std::uint32_t place) {
    counts_.resize(pieces.loads.size());
    for (std::size_t i = 0; i < counts_.size(); ++i)
      counts_[i].push_back(pieces.loads[i].counts[place]);
    places_.push_back(place);
    sizes_.push_back(pieces.sizes[place]);
    sweeps_.push_back(pieces.sweeps[place]);
  }

  // After all pieces are added.
  void open(std::span<const Load> loads, std::uint32_t row_length, std::uint64_t look_ahead) {
    if (sizes_.empty()) return;
    std::vector<Load> own;
    for (std::size_t i = 0; i < loads.size(); ++i)
      own.push_back({.counts = counts_[i], .limit = loads[i].limit});
    look_ahead_ = look_ahead;
    sight_ = std::make_unique<Bands>(sizes_, row_length, own);
    top_up();
  }

  // The corpus may deliver so many samples more.
  void allow(std::uint32_t size) { allowed_ += size; }

  // It may deliver a piece; the last one may be more than is allowed.
  bool is_allowed() const { return allowed_ > 0; }

  // The place among the pieces of the corpus of the oldest in sight, and the largest offer to a
  // row. REQUIRES: is_allowed(), so that there is one
  std::uint32_t oldest() { return sight_->oldest(); }
  Bands::Offer largest(std::span<const std::uint32_t> room) const {
    return sight_->largest(room);
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
  std::unique_ptr<Bands> sight_;  // null if there is no piece
  std::uint64_t look_ahead_ = 0;
  std::uint32_t next_ = 0;   // the first that was not in sight
  std::uint16_t sweep_ = 0;  // of all in sight
  std::int64_t allowed_ = 0;
};

// A corpus that may deliver, and its offer.
struct Due {
  explicit Due(CorpusPieces* pieces)
      : corpus(pieces),
        own_oldest(pieces->oldest()),
        oldest(pieces->place_in_list(own_oldest)) {}

  CorpusPieces* corpus;
  std::uint32_t own_oldest;  // among the pieces of the corpus
  std::uint32_t oldest;      // in the list
  std::uint32_t own_largest = 0;
  std::optional<Bands::Offer> largest{};  // in the list; absent before it is asked for
};

// A row takes the oldest in sight until that does not fit, then repeatedly the largest that
// fits; its sequences are in the order of the list.
class MixedPacker {
 public:
  MixedPacker(const PackItems& pieces, std::uint32_t row_length, std::uint64_t look_ahead)
      : pieces_(pieces),
        row_length_(row_length),
        room_(pieces.loads.size() + 1),
        corpora_(*std::ranges::max_element(pieces.corpora) + std::size_t{1}) {
    std::vector<std::size_t> counts(corpora_.size());
    for (const std::uint16_t number : pieces.corpora) ++counts[number];
    for (std::size_t number = 0; number < corpora_.size(); ++number)
      corpora_[number].reserve(counts[number]);
    for (std::uint32_t place = 0; place < pieces.sizes.size(); ++place)
      corpora_[pieces.corpora[place]].add(pieces, place);
    for (CorpusPieces& corpus : corpora_) corpus.open(pieces.loads, row_length, look_ahead);
  }

  Rows pack() {
    Rows rows;
    rows.members.reserve(pieces_.sizes.size());
    while (rows.members.size() < pieces_.sizes.size()) {
      for (Due& due : due_) due.largest.reset();
      // Two rows from here on: the next row makes up for samples beyond the first.
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
      if (!was_allowed && corpus.is_allowed()) due_.emplace_back(&corpus);
    }
  }

  // Takes a piece of a corpus that is due.
  void take(std::size_t i, std::uint32_t own) {
    CorpusPieces& corpus = *due_[i].corpus;
    corpus.take(own, room_);
    if (corpus.is_allowed()) {
      due_[i] = Due(&corpus);
    } else {
      due_[i] = due_.back();
      due_.pop_back();
    }
  }

  // The samples of one row, and its members in the order in which they are taken.
  std::uint32_t fill(std::vector<std::uint32_t>& members) {
    room_[0] = row_length_;
    for (std::size_t i = 0; i < pieces_.loads.size(); ++i)
      room_[i + 1] = pieces_.loads[i].limit;
    while (!due_.empty()) {
      const auto first = std::ranges::min_element(due_, {}, &Due::oldest);
      if (!first->corpus->fits(first->own_oldest, room_)) break;
      members.push_back(first->oldest);
      take(static_cast<std::size_t>(first - due_.begin()), first->own_oldest);
    }
    while (room_[0] > 0) {
      const std::size_t i = find_largest();
      if (i == due_.size()) break;
      members.push_back(due_[i].largest->place);
      take(i, due_[i].own_largest);
    }
    return row_length_ - room_[0];
  }

  // The corpus that offers the largest piece, the oldest among equals; the number of due
  // corpora if no piece fits.
  std::size_t find_largest() {
    std::size_t found = due_.size();
    for (std::size_t i = 0; i < due_.size(); ++i) {
      Due& due = due_[i];
      if (!due.largest || !is_still_largest(*due.largest)) {
        due.largest = due.corpus->largest(room_);
        due.own_largest = due.largest->place;
        if (due.own_largest != Bands::kNone)
          due.largest->place = due.corpus->place_in_list(due.own_largest);
      }
      if (due.largest->place == Bands::kNone) continue;
      if (found == due_.size() || due.largest->is_before(*due_[found].largest)) found = i;
    }
    return found;
  }

  // By sizes alone, the longest piece that fitted remains the longest if it fits into less
  // room, and if none fitted, none will.
  bool is_still_largest(const Bands::Offer& offer) const {
    return room_.size() == 1 && offer.own <= room_[0];
  }

  const PackItems& pieces_;
  std::uint32_t row_length_;
  std::vector<std::uint32_t> room_;  // of each measure, in the open row
  std::vector<CorpusPieces> corpora_;
  std::vector<Due> due_;
  std::uint32_t next_ = 0;           // the first piece that is not allowed yet
  std::uint64_t begin_of_next_ = 0;  // in the list
  std::uint64_t delivered_ = 0;
};

}  // namespace

Rows pack_mixed(const PackItems& items, std::uint32_t row_length, std::uint64_t look_ahead) {
  return MixedPacker(items, row_length, look_ahead).pack();
}

}  // namespace sweephand
