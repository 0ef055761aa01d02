#include "compose/pack.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

// A set of small integers that finds the largest one below a bound: a tree of bits, 64 to a
// node.
class BitTree {
 public:
  static constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

  explicit BitTree(std::size_t size) {
    do {
      size = (size + 63) / 64;
      levels_.emplace_back(size);
    } while (size > 1);
  }

  void insert(std::uint32_t item) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[item / 64];
      const bool known = word != 0;
      word |= std::uint64_t{1} << item % 64;
      if (known) return;
      item /= 64;
    }
  }

  // If `item` stays, nothing changes: the tree is updated all the same, as a branch would be
  // mispredicted.
  void erase(std::uint32_t item, bool stays) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[item / 64];
      word &= ~(std::uint64_t{!stays} << item % 64);
      if (word != 0) return;
      item /= 64;
    }
  }

  // kNone if there is none. REQUIRES: bound < the size given, rounded up to a multiple of 64
  std::uint32_t largest_below(std::uint32_t bound) const {
    for (std::size_t height = 0; height < levels_.size(); ++height) {
      const std::uint64_t below = (std::uint64_t{1} << bound % 64) - 1;
      const std::uint64_t word = levels_[height][bound / 64] & below;
      bound /= 64;
      if (word == 0) continue;
      std::uint32_t item = bound * 64 + last_bit(word);
      while (height-- > 0) item = item * 64 + last_bit(levels_[height][item]);
      return item;
    }
    return kNone;
  }

 private:
  static std::uint32_t last_bit(std::uint64_t word) {
    return 63U - static_cast<std::uint32_t>(std::countl_zero(word));
  }

  std::vector<std::vector<std::uint64_t>> levels_;
};

// Places by ascending size, those of equal size in the order of the list: a radix sort, in as
// few passes as digits of 14 bits allow.
std::vector<std::uint32_t> by_size(std::span<const std::uint32_t> sizes) {
  const std::uint32_t largest = *std::ranges::max_element(sizes);
  const auto width = static_cast<unsigned>(std::bit_width(largest | 1));
  const unsigned passes = (width + 13) / 14;
  const unsigned bits = (width + passes - 1) / passes;
  const std::uint32_t mask = (1U << bits) - 1;
  std::vector<std::uint32_t> places(sizes.size());
  std::vector<std::uint32_t> sorted(sizes.size());
  std::iota(places.begin(), places.end(), 0U);
  for (unsigned shift = 0; shift < width; shift += bits) {
    std::vector<std::uint32_t> next(std::size_t{mask} + 2);
    for (const std::uint32_t size : sizes) ++next[(size >> shift & mask) + 1];
    std::partial_sum(next.begin(), next.end(), next.begin());
    for (const std::uint32_t place : places) {
      sorted[next[sizes[place] >> shift & mask]++] = place;
    }
    std::swap(places, sorted);
  }
  return places;
}

// The sequences of a list that are in sight. A rank is one of the different sizes, in ascending
// order; sequences of one rank come into sight, and are taken, in the order of the list.
class Sight {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;

  // REQUIRES: at least one size; 1 <= size <= row_length
  Sight(std::span<const std::uint32_t> sizes, std::uint32_t row_length)
      : places_(by_size(sizes)),
        ranks_(sizes.size()),
        sizes_(std::min<std::size_t>(sizes.size(), row_length)),
        next_(sizes_.size() + 1) {
    std::uint32_t rank = 0;
    for (std::uint32_t i = 0; i < places_.size(); ++i) {
      const std::uint32_t size = sizes[places_[i]];
      rank += i > 0 && size != sizes_[rank];
      sizes_[rank] = size;
      next_[rank + 1] = i + 1;  // until the rank's last sequence is met
      ranks_[places_[i]] = rank;
    }
    sizes_.resize(rank + 1);
    in_sight_.resize(sizes_.size());
    tree_ = BitTree(sizes_.size() + 1);
    while (row_length >> shift_ > 4 * sizes_.size()) ++shift_;
    ranks_below_.resize((row_length >> shift_) + 2);
    for (const std::uint32_t size : sizes_) ++ranks_below_[(size >> shift_) + 1];
    std::partial_sum(ranks_below_.begin(), ranks_below_.end(), ranks_below_.begin());
  }

  std::uint32_t size(std::uint32_t rank) const { return sizes_[rank]; }
  std::uint32_t rank(std::uint32_t place) const { return ranks_[place]; }

  // Brings a place of the list into sight. REQUIRES: places ascend
  void add(std::uint32_t place) {
    const std::uint32_t rank = ranks_[place];
    ++in_sight_[rank];
    tree_.insert(rank);
  }

  // Rank of the longest sequence that fits into `room`; kNone if there is none. REQUIRES: room
  // <= row_length
  std::uint32_t longest(std::uint32_t room) const {
    const std::uint32_t part = room >> shift_;
    if (shift_ == 0) return tree_.largest_below(ranks_below_[part + 1]);
    const auto too_long = std::upper_bound(sizes_.begin() + ranks_below_[part],
                                           sizes_.begin() + ranks_below_[part + 1], room);
    return tree_.largest_below(static_cast<std::uint32_t>(too_long - sizes_.begin()));
  }

  // The place of the oldest sequence of a rank. REQUIRES: one is in sight
  std::uint32_t first_of(std::uint32_t rank) const { return places_[next_[rank]]; }

  // Takes the oldest sequence of a rank. REQUIRES: one is in sight
  void take(std::uint32_t rank) {
    ++next_[rank];
    tree_.erase(rank, --in_sight_[rank] != 0);
  }

 private:
  std::vector<std::uint32_t> places_;    // by size
  std::vector<std::uint32_t> ranks_;     // of each place
  std::vector<std::uint32_t> sizes_;     // of each rank
  std::vector<std::uint32_t> next_;      // of each rank, where its next sequence is in places_
  std::vector<std::uint32_t> in_sight_;  // of each rank, how many
  BitTree tree_{1};                      // ranks with a sequence in sight
  unsigned shift_ = 0;
  std::vector<std::uint32_t> ranks_below_;  // entry p: ranks with size >> shift_ below p
};

// The sequences that a packer with limits may take next, by their main measure.
// A measure of a sequence is its size, or its count of a load; each has the most that a row
// holds. A sequence is in the band of the measure that it has most of, in relation to that, and
// of how much it has of the other measures in relation to it, in eighths.
class Bands {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;
  static constexpr std::uint32_t kSteps = 8;
  static constexpr std::uint8_t kNoBand = 255;

  Bands(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
        std::span<const Load> loads)
      : measures_{sizes},
        limits_{row_length},
        band_of_(sizes.size()),
        number_of_(sizes.size()),
        taken_(sizes.size()) {
    for (const Load& load : loads) {
      measures_.push_back(load.counts);
      limits_.push_back(load.limit);
    }
    totals_.resize(limits_.size());
    std::vector<std::uint8_t> known(limits_.size() * (kSteps + 1), kNoBand);
    for (std::uint32_t place = 0; place < sizes.size(); ++place) {
      std::uint32_t most = 0;
      for (std::uint32_t m = 1; m < limits_.size(); ++m) {
        if (std::uint64_t{measures_[m][place]} * limits_[most] >
            std::uint64_t{measures_[most][place]} * limits_[m])
          most = m;
      }
      const std::uint64_t key = measures_[most][place];
      std::uint64_t eighths = 0;
      for (std::uint32_t m = 0; m < limits_.size(); ++m) {
        if (m == most || measures_[m][place] == 0) continue;
        const uint128 whole = uint128{key} * limits_[m];
        const uint128 part = uint128{measures_[m][place]} * limits_[most] * kSteps;
        eighths = std::max(eighths, static_cast<std::uint64_t>((part + whole - 1) / whole));
      }
      std::uint8_t& number = known[most * (kSteps + 1) + eighths];
      if (number == kNoBand) {
        number = static_cast<std::uint8_t>(bands_.size());
        bands_.push_back({.measure = most, .eighths = static_cast<std::uint32_t>(eighths)});
      }
      Band& band = bands_[number];
      band_of_[place] = number;
      number_of_[place] = static_cast<std::uint32_t>(band.places.size());
      band.places.push_back(place);
      band.keys.push_back(static_cast<std::uint32_t>(key));
    }
    for (Band& band : bands_) band.sight.emplace(band.keys, limits_[band.measure]);
  }

  std::uint64_t count() const noexcept { return count_; }
  std::size_t num_measures() const noexcept { return limits_.size(); }
  std::uint32_t limit(std::size_t measure) const { return limits_[measure]; }
  std::uint32_t measure(std::uint32_t place, std::size_t measure) const {
    return measures_[measure][place];
  }
  bool fits(std::uint32_t place, std::span<const std::uint32_t> room) const {
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (measures_[m][place] > room[m]) return false;
    }
    return true;
  }

  // A place, and the amount of its main measure in relation to the most of it.
  struct Offer {
    std::uint32_t place = kNone;
    std::uint32_t own = 0;
    std::uint32_t limit = 1;

    // REQUIRES: neither is none
    bool is_before(const Offer& other) const {
      const std::uint64_t mine = std::uint64_t{own} * other.limit;
      const std::uint64_t its = std::uint64_t{other.own} * limit;
      return mine != its ? mine > its : place < other.place;
    }
  };

  // Of all in sight.
  std::uint64_t total(std::size_t measure) const { return totals_[measure]; }

  // Brings a place of the list into sight. REQUIRES: places ascend
  void add(std::uint32_t place) {
    bands_[band_of_[place]].sight->add(number_of_[place]);
    for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] += measures_[m][place];
    ++count_;
  }
  // REQUIRES: count() > 0
  std::uint32_t oldest() {
    while (taken_[oldest_] != 0) ++oldest_;
    return oldest_;
  }
  // Takes a place that is the oldest, or was found.
  void take(std::uint32_t place) {
    Sight& sight = *bands_[band_of_[place]].sight;
    sight.take(sight.rank(number_of_[place]));
    for (std::size_t m = 0; m < limits_.size(); ++m) totals_[m] -= measures_[m][place];
    taken_[place] = 1;
    --count_;
  }

  // The bands to ask: those that have more of a measure, for their size, than all in sight had
  // at the last update; those that have less; or all.
  enum class Side : std::uint8_t { kAll, kMore, kLess };
  void divide(std::size_t measure) {
    // The ratio of the measure to the size over all in sight, each relative to its limit.
    const uint128 have = uint128{totals_[measure]} * limits_[0];
    const uint128 size = uint128{totals_[0]} * limits_[measure];
    for (Band& band : bands_) {
      const bool is_own = band.measure == measure;
      band.has_more =
          is_own ? kSteps * size > band.eighths * have : band.eighths * size > kSteps * have;
    }
  }

  // The largest that was found in a band, in relation to the most of its measure; of equal ones
  // the oldest. In every band that is the one with the most that fits, or, where its oldest has
  // too much of the others, the most that no other measure can prevent.
  Offer largest(std::span<const std::uint32_t> room, Side side = Side::kAll) const {
    Offer largest;
    for (const Band& band : bands_) {
      if (side != Side::kAll && band.has_more != (side == Side::kMore)) continue;
      const Offer found = found_in(band, room);
      if (found.place == kNone) continue;
      if (largest.place == kNone || found.is_before(largest)) largest = found;
    }
    return largest;
  }

 private:
  struct Band {
    std::uint32_t measure = 0;
    std::uint32_t eighths = 0;
    bool has_more = false;
    std::vector<std::uint32_t> places;  // in the list
    std::vector<std::uint32_t> keys;    // what they have of the measure
    std::optional<Sight> sight;
  };

  bool others_fit(const Band& band, std::uint32_t place,
                  std::span<const std::uint32_t> room) const {
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (m != band.measure && measures_[m][place] > room[m]) return false;
    }
    return true;
  }

  Offer longest_in(const Band& band, std::uint32_t room) const {
    const std::uint32_t rank = band.sight->longest(room);
    if (rank == Sight::kNone) return {};
    return {.place = band.places[band.sight->first_of(rank)],
            .own = band.sight->size(rank),
            .limit = limits_[band.measure]};
  }

  Offer found_in(const Band& band, std::span<const std::uint32_t> room) const {
    const std::uint32_t own = room[band.measure];
    const Offer longest = longest_in(band, own);
    if (longest.place == kNone || others_fit(band, longest.place, room)) return longest;
    uint128 most = own;
    for (std::size_t m = 0; m < limits_.size(); ++m) {
      if (m == band.measure) continue;
      most = std::min(most, uint128{room[m]} * limits_[band.measure] * kSteps /
                                (uint128{band.eighths} * limits_[m]));
    }
    return longest_in(band, static_cast<std::uint32_t>(most));
  }

  std::vector<std::span<const std::uint32_t>> measures_;
  std::vector<std::uint32_t> limits_;
  std::vector<Band> bands_;
  std::vector<std::uint8_t> band_of_;     // of each place
  std::vector<std::uint32_t> number_of_;  // of each place, in its band
  std::vector<std::uint8_t> taken_;
  std::vector<std::uint64_t> totals_;
  std::uint64_t count_ = 0;
  std::uint32_t oldest_ = 0;
};

constexpr std::uint32_t kLastPart = 8;  // of a row: the rest of it is filled by size alone

class ListPacker {
 public:
  ListPacker(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
             std::span<const Load> loads, std::uint64_t look_ahead)
      : bands_(sizes, row_length, loads),
        num_places_(static_cast<std::uint32_t>(sizes.size())),
        look_ahead_(look_ahead),
        room_(bands_.num_measures()) {}

  Rows pack(bool longest_first) {
    Rows rows;
    rows.members.reserve(num_places_);
    top_up();
    while (bands_.count() > 0) {
      open_row();
      std::uint32_t place = longest_first ? bands_.largest(room_).place : bands_.oldest();
      while (place != Bands::kNone) {
        rows.members.push_back(place);
        for (std::size_t m = 0; m < room_.size(); ++m) room_[m] -= bands_.measure(place, m);
        bands_.take(place);
        top_up();
        place = next();
      }
      rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
    }
    return rows;
  }

 private:
  void top_up() {
    while (bands_.count() < look_ahead_ && next_ < num_places_) bands_.add(next_++);
  }

  // The scarcest load, if there are any, decides which sequences have much.
  void open_row() {
    for (std::size_t m = 0; m < room_.size(); ++m) room_[m] = bands_.limit(m);
    if (room_.size() == 1) return;
    scarcest_ = 1;
    for (std::size_t m = 2; m < room_.size(); ++m) {
      if (uint128{bands_.total(m)} * bands_.limit(scarcest_) >
          uint128{bands_.total(scarcest_)} * bands_.limit(m))
        scarcest_ = m;
    }
    load_ = bands_.total(scarcest_);
    size_ = bands_.total(0);
    bands_.divide(scarcest_);
  }

  // While there is room for several, those that bring the row to the ratio of all in sight.
  std::uint32_t next() const {
    bool is_last_part = room_.size() == 1;
    for (std::size_t m = 0; m < room_.size(); ++m)
      is_last_part = is_last_part || room_[m] < bands_.limit(m) / kLastPart;
    if (!is_last_part) {
      const std::uint64_t load = bands_.limit(scarcest_) - room_[scarcest_];
      const std::uint64_t size = bands_.limit(0) - room_[0];
      const bool has_less = uint128{load} * size_ < uint128{size} * load_;
      const std::uint32_t place =
          bands_.largest(room_, has_less ? Bands::Side::kMore : Bands::Side::kLess).place;
      if (place != Bands::kNone) return place;
    }
    return bands_.largest(room_).place;
  }

  Bands bands_;
  std::uint32_t num_places_;
  std::uint64_t look_ahead_;
  std::vector<std::uint32_t> room_;  // of each measure, in the open row
  std::size_t scarcest_ = 1;
  std::uint64_t load_ = 0;  // of the scarcest, and
  std::uint64_t size_ = 0;  // of all in sight when the row was opened
  std::uint32_t next_ = 0;  // the first place that was not in sight
};

Rows in_list_order(Rows rows) {
  std::vector<std::uint32_t> row_of(rows.members.size());
  std::vector<std::uint32_t> next(rows.ends.size());  // where the row's next member goes
  for (std::uint32_t row = 0, i = 0; row < rows.ends.size(); ++row) {
    next[row] = i;
    for (; i < rows.ends[row]; ++i) row_of[rows.members[i]] = row;
  }
  for (std::uint32_t place = 0; place < row_of.size(); ++place) {
    rows.members[next[row_of[place]]++] = place;
  }
  return rows;
}

Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length) {
  // Rows take sizes; the sequences of a size go to the rows that took it, in their order.
  std::vector<std::uint32_t> ends(std::size_t{row_length} + 1);
  for (const std::uint32_t size : sizes) ++ends[size];
  std::partial_sum(ends.begin(), ends.end(), ends.begin());
  std::vector<std::uint32_t> next(ends.size());  // of each size, the first that no row took
  BitTree left(ends.size() + 1);
  for (std::uint32_t size = 1; size <= row_length; ++size) {
    next[size] = ends[size - 1];
    if (next[size] != ends[size]) left.insert(size);
  }
  std::vector<std::uint32_t> takers(sizes.size());  // rows, by size
  Rows rows;
  std::uint32_t taken = 0;
  while (taken < sizes.size()) {
    std::uint32_t room = row_length;
    const auto row = static_cast<std::uint32_t>(rows.ends.size());
    for (std::uint32_t size = left.largest_below(room + 1); size != BitTree::kNone;
         size = left.largest_below(room + 1)) {
      takers[next[size]++] = row;
      left.erase(size, next[size] != ends[size]);
      room -= size;
      ++taken;
    }
    rows.ends.push_back(taken);
  }
  std::vector<std::uint32_t> place(rows.ends.size());  // of each row's next member
  for (std::size_t row = 1; row < place.size(); ++row) place[row] = rows.ends[row - 1];
  for (std::size_t size = ends.size(); --size > 0;) next[size] = ends[size - 1];
  rows.members.resize(sizes.size());
  for (std::uint32_t i = 0; i < sizes.size(); ++i)
    rows.members[place[takers[next[sizes[i]]++]]++] = i;
  return rows;
}

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

void check(const Packing& packing) {
  if (packing.row_length == 0 || packing.row_length > std::uint32_t{1} << 31) {
    throw std::invalid_argument("row_length must be in [1, 2^31], got " +
                                std::to_string(packing.row_length));
  }
  if (packing.look_ahead == 0) {
    throw std::invalid_argument("look_ahead must be at least 1, got 0");
  }
  for (const Limit& limit : packing.limits) {
    if (limit.counts == nullptr || limit.most == 0 || limit.most > std::uint32_t{1} << 31)
      throw std::invalid_argument("a limit of rows must be in [1, 2^31], and have counts");
  }
}

// The rule "the longest that fits" is in three places: `Sight::longest`, for lists and
// mixtures; `pack_longest_first`, for whole lists of shuffled sweeps without limits; and
// `MixedPacker::is_still_largest`, which keeps an answer of the first for another row.
Rows pack(const PackItems& items, Fill fill, std::uint32_t row_length,
          std::uint64_t look_ahead) {
  const std::span sizes = items.sizes;
  if (sizes.empty()) return {};
  if (fill == Fill::kMixed) return MixedPacker(items, row_length, look_ahead).pack();
  if (fill == Fill::kInOrder)
    return ListPacker(sizes, row_length, items.loads, look_ahead).pack(false);
  // A table of all sizes is faster, unless most of them do not occur.
  if (items.loads.empty() && row_length / 4 <= sizes.size())
    return pack_longest_first(sizes, row_length);
  return in_list_order(ListPacker(sizes, row_length, items.loads, sizes.size()).pack(true));
}

}  // namespace sweephand
