#include "compose/mixed_rows.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <memory>
#include <optional>
#include <vector>

namespace sweephand {
namespace {

// Numbers of corpora, a bit each.
class CorpusBits {
 public:
  explicit CorpusBits(std::size_t num_corpora) : words_((num_corpora + 63) / 64) {}

  void set(std::uint32_t corpus, bool is_in) {
    const std::uint64_t bit = std::uint64_t{1} << corpus % 64;
    words_[corpus / 64] = is_in ? words_[corpus / 64] | bit : words_[corpus / 64] & ~bit;
  }
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

// Which corpora have a piece of each size in sight: one look finds the largest that any has.
class Holders {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;
  static constexpr std::size_t kMostWords = std::size_t{1} << 17;

  // Little enough to be made for every pack.
  static bool suits(std::size_t num_corpora, std::uint32_t row_length) {
    return (num_corpora + 63) / 64 <= kMostWords / (std::size_t{row_length} + 1);
  }

  Holders(std::size_t num_corpora, std::uint32_t row_length)
      : num_words_((num_corpora + 63) / 64),
        words_((std::size_t{row_length} + 1) * num_words_),
        sizes_(std::size_t{row_length} + 2) {}

  void insert(std::uint32_t size, std::uint32_t corpus) {
    words_[size * num_words_ + corpus / 64] |= std::uint64_t{1} << corpus % 64;
    sizes_.insert(size);
  }
  void erase(std::uint32_t size, std::uint32_t corpus) {
    words_[size * num_words_ + corpus / 64] &= ~(std::uint64_t{1} << corpus % 64);
    const auto words = of(size);
    sizes_.erase(size,
                 std::ranges::any_of(words, [](std::uint64_t word) { return word != 0; }));
  }

  // The largest size below a bound that any corpus has; kNone if there is none.
  std::uint32_t largest_below(std::uint32_t bound) const { return sizes_.largest_below(bound); }

  // Calls visit(corpus) for each of `wanted` that has a piece of that size.
  template <class Visit>
  void each(std::uint32_t size, const CorpusBits& wanted, const Visit& visit) const {
    const auto words = of(size);
    for (std::uint32_t i = 0; i < num_words_; ++i) {
      for (std::uint64_t left = words[i] & wanted.words()[i]; left != 0; left &= left - 1) {
        visit(i * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
      }
    }
  }

 private:
  std::span<const std::uint64_t> of(std::uint32_t size) const {
    return std::span(words_).subspan(size * num_words_, num_words_);
  }

  std::size_t num_words_;             // of a size
  std::vector<std::uint64_t> words_;  // of each size the corpora
  BitTree sizes_;                     // that some corpus has
};

// The pieces of each corpus of a mixture, and which of them may come next into a row.
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

// A corpus that may deliver, and its offer.
template <class InSight>
struct Due {
  Due(CorpusPieces<InSight>* pieces, std::uint32_t corpus_number)
      : corpus(pieces),
        number(corpus_number),
        own_oldest(pieces->oldest()),
        oldest(pieces->place_in_list(own_oldest)) {}

  // REQUIRES: there is an offer
  std::uint32_t place_of_largest() {
    if (!is_placed) {
      own_largest = corpus->place_of_offer(*largest);
      largest->place = corpus->place_in_list(own_largest);
      is_placed = true;
    }
    return largest->place;
  }

  // As Bands::Offer::is_before, by places in the list. REQUIRES: both have an offer
  bool is_before(Due& other) {
    const std::uint64_t mine = std::uint64_t{largest->own} * other.largest->limit;
    const std::uint64_t its = std::uint64_t{other.largest->own} * largest->limit;
    return mine != its ? mine > its : place_of_largest() < other.place_of_largest();
  }

  CorpusPieces<InSight>* corpus;
  std::uint32_t number;      // of the corpus
  std::uint32_t own_oldest;  // among the pieces of the corpus
  std::uint32_t oldest;      // in the list
  std::uint32_t own_largest = 0;
  bool is_placed = false;                 // the largest: its places are known
  std::optional<Bands::Offer> largest{};  // absent before it is asked for
};

template <class InSight>
class MixedPacker {
  using Corpus = CorpusPieces<InSight>;

 public:
  MixedPacker(const MixedPieces& pieces, std::uint32_t row_length, std::uint64_t look_ahead)
      : pieces_(pieces),
        row_length_(row_length),
        room_(pieces.loads.size() + 1),
        corpora_(*std::ranges::max_element(pieces.corpora) + std::size_t{1}),
        slot_of_(corpora_.size()),
        are_due_(corpora_.size()),
        oldest_(pieces.sizes.size() + 1) {
    if (pieces.loads.empty() && num_due_at_first() > kFew &&
        Holders::suits(corpora_.size(), row_length))
      holders_.emplace(corpora_.size(), row_length);
    Holders* const all = holders_ ? &*holders_ : nullptr;
    std::vector<std::size_t> counts(corpora_.size());
    for (const std::uint16_t number : pieces.corpora) ++counts[number];
    for (std::uint32_t number = 0; number < corpora_.size(); ++number)
      corpora_[number].reserve(counts[number]);
    for (std::uint32_t place = 0; place < pieces.sizes.size(); ++place)
      corpora_[pieces.corpora[place]].add(pieces, place);
    for (std::uint32_t number = 0; number < corpora_.size(); ++number)
      corpora_[number].open(pieces.loads, row_length, look_ahead, {all, number});
  }

  Rows pack() {
    Rows rows;
    rows.members.reserve(pieces_.sizes.size());
    while (rows.members.size() < pieces_.sizes.size()) {
      for (Due<InSight>& due : due_) due.largest.reset();
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
  static constexpr std::size_t kFew = 8;  // corpora, which are fast to ask
  static constexpr int kMostLooks = 16;   // at sizes that no due corpus has

  // Corpora that deliver to the first row: about as many as to other rows.
  std::size_t num_due_at_first() const {
    std::vector<bool> are_due(corpora_.size());
    std::uint64_t samples = 0;
    for (std::size_t i = 0;
         i < pieces_.sizes.size() && samples < 2 * std::uint64_t{row_length_}; ++i) {
      are_due[pieces_.corpora[i]] = true;
      samples += pieces_.sizes[i];
    }
    return static_cast<std::size_t>(std::ranges::count(are_due, true));
  }

  // Allows every corpus the samples of its pieces that begin before `end`.
  void allow_up_to(std::uint64_t end) {
    while (next_ < pieces_.sizes.size() && begin_of_next_ < end) {
      const std::uint32_t number = pieces_.corpora[next_];
      Corpus& corpus = corpora_[number];
      const bool was_allowed = corpus.is_allowed();
      corpus.allow(pieces_.sizes[next_]);
      begin_of_next_ += pieces_.sizes[next_++];
      if (was_allowed || !corpus.is_allowed()) continue;
      slot_of_[number] = static_cast<std::uint32_t>(due_.size());
      are_due_.set(number, true);
      due_.emplace_back(&corpus, number);
      if (holders_) oldest_.insert(backwards(due_.back().oldest));
    }
  }

  // Places in the list, the first one last.
  std::uint32_t backwards(std::uint32_t place) const {
    return static_cast<std::uint32_t>(pieces_.sizes.size()) - 1 - place;
  }

  // The corpus whose oldest piece is the oldest of all. REQUIRES: a corpus is due
  std::size_t find_oldest() const {
    if (!holders_) {
      const auto first = std::ranges::min_element(due_, {}, &Due<InSight>::oldest);
      return static_cast<std::size_t>(first - due_.begin());
    }
    const auto size = static_cast<std::uint32_t>(pieces_.sizes.size());
    return slot_of_[pieces_.corpora[backwards(oldest_.largest_below(size))]];
  }

  // Takes a piece of a corpus that is due.
  void take(std::size_t i, std::uint32_t own) {
    Corpus& corpus = *due_[i].corpus;
    const std::uint32_t number = due_[i].number;
    if (holders_) oldest_.erase(backwards(due_[i].oldest), false);
    corpus.take(own, room_);
    if (corpus.is_allowed()) {
      due_[i] = Due<InSight>(&corpus, number);
      if (holders_) oldest_.insert(backwards(due_[i].oldest));
      return;
    }
    are_due_.set(number, false);
    due_[i] = due_.back();
    slot_of_[due_[i].number] = static_cast<std::uint32_t>(i);
    due_.pop_back();
  }

  // The samples of one row, and its members in the order in which they are taken.
  std::uint32_t fill(std::vector<std::uint32_t>& members) {
    room_[0] = row_length_;
    for (std::size_t i = 0; i < pieces_.loads.size(); ++i)
      room_[i + 1] = pieces_.loads[i].limit;
    while (!due_.empty()) {
      const std::size_t i = find_oldest();
      const Due<InSight>& first = due_[i];
      if (!first.corpus->fits(first.own_oldest, room_)) break;
      members.push_back(first.oldest);
      take(i, first.own_oldest);
    }
    while (room_[0] > 0) {
      const std::size_t i = find_largest();
      if (i == due_.size()) break;
      members.push_back(due_[i].corpus->place_in_list(due_[i].own_largest));
      take(i, due_[i].own_largest);
    }
    return row_length_ - room_[0];
  }

  // The corpus that offers the largest piece, the oldest among equals; the number of due
  // corpora if no piece fits.
  std::size_t find_largest() {
    if (holders_ && due_.size() > kFew) {
      if (const auto found = find_largest_held()) return *found;
    }
    return ask_for_largest();
  }

  // The same by all pieces in sight; empty if most of them are of corpora that are not due.
  std::optional<std::size_t> find_largest_held() {
    std::uint32_t size = room_[0] + 1;
    for (int looks = 0; looks < kMostLooks; ++looks) {
      size = holders_->largest_below(size);
      if (size == Holders::kNone) return due_.size();
      std::size_t found = due_.size();
      holders_->each(size, are_due_, [&](std::uint32_t number) {
        const std::size_t i = slot_of_[number];
        Due<InSight>& due = due_[i];
        due.largest = Bands::Offer{.place = 0, .own = size, .limit = row_length_};
        due.is_placed = false;
        if (found == due_.size() || due.place_of_largest() < due_[found].place_of_largest())
          found = i;
      });
      if (found == due_.size()) continue;
      due_[found].place_of_largest();
      return found;
    }
    return std::nullopt;
  }

  // The same by asking each corpus.
  std::size_t ask_for_largest() {
    std::size_t found = due_.size();
    for (std::size_t i = 0; i < due_.size(); ++i) {
      Due<InSight>& due = due_[i];
      if (!due.largest || !is_still_largest(*due.largest)) {
        due.largest = due.corpus->largest(room_);
        due.is_placed = false;
      }
      if (due.largest->place == Bands::kNone) continue;
      if (found == due_.size() || due.is_before(due_[found])) found = i;
    }
    if (found < due_.size()) due_[found].place_of_largest();
    return found;
  }

  // By sizes alone, the longest piece that fitted remains the longest if it fits into less
  // room, and if none fitted, none will.
  bool is_still_largest(const Bands::Offer& offer) const {
    return room_.size() == 1 && offer.own <= room_[0];
  }

  const MixedPieces& pieces_;
  std::uint32_t row_length_;
  std::vector<std::uint32_t> room_;  // of each measure, in the open row
  std::optional<Holders> holders_;   // of sizes alone, where many are due
  std::vector<Corpus> corpora_;
  std::vector<Due<InSight>> due_;
  std::vector<std::uint32_t> slot_of_;  // of each corpus that is due, in due_
  CorpusBits are_due_;
  BitTree oldest_;  // the oldest of each that is due, backwards, where there are holders
  std::uint32_t next_ = 0;           // the first piece that is not allowed yet
  std::uint64_t begin_of_next_ = 0;  // in the list
  std::uint64_t delivered_ = 0;
};

}  // namespace

Rows pack_mixture(const MixedPieces& pieces, std::uint32_t row_length,
                  std::uint64_t look_ahead) {
  if (pieces.sizes.empty()) return {};
  if (pieces.loads.empty())
    return MixedPacker<SizesInSight>(pieces, row_length, look_ahead).pack();
  return MixedPacker<BandsInSight>(pieces, row_length, look_ahead).pack();
}

}  // namespace sweephand
