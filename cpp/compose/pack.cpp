#include "compose/pack.hpp"

#include "compose/sight.hpp"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

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
// `is_still_largest` of mixed_rows.cpp, which keeps an answer of the first for another row.
Rows pack(const PackItems& items, Fill fill, std::uint32_t row_length,
          std::uint64_t look_ahead) {
  const std::span sizes = items.sizes;
  if (sizes.empty()) return {};
  if (fill == Fill::kMixed) return pack_mixed(items, row_length, look_ahead);
  if (fill == Fill::kInOrder)
    return ListPacker(sizes, row_length, items.loads, look_ahead).pack(false);
  // A table of all sizes is faster, unless most of them do not occur.
  if (items.loads.empty() && row_length / 4 <= sizes.size())
    return pack_longest_first(sizes, row_length);
  return in_list_order(ListPacker(sizes, row_length, items.loads, sizes.size()).pack(true));
}

}  // namespace sweephand
