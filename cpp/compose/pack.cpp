#include "compose/pack.hpp"

#include "compose/sight.hpp"

namespace sweephand {
namespace {

enum class Opening : std::uint8_t { kOldest, kLongest };

Rows pack(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
          std::uint64_t look_ahead, Opening opening) {
  Rows rows;
  if (sizes.empty()) return rows;
  rows.members.reserve(sizes.size());
  Sight sight(sizes, row_length);
  std::uint32_t next = 0;
  const auto top_up = [&] {
    while (sight.count() < look_ahead && next < sizes.size()) sight.add(next++);
  };
  top_up();
  while (sight.count() > 0) {
    std::uint32_t room = row_length;
    std::uint32_t rank =
        opening == Opening::kOldest ? sight.oldest() : sight.longest(row_length);
    while (rank != Sight::kNone) {
      rows.members.push_back(sight.take(rank));
      room -= sight.size(rank);
      top_up();
      rank = sight.longest(room);
    }
    rows.ends.push_back(static_cast<std::uint32_t>(rows.members.size()));
  }
  return rows;
}

}  // namespace

Rows pack_in_order(std::span<const std::uint32_t> sizes, std::uint32_t row_length,
                   std::uint64_t look_ahead) {
  return pack(sizes, row_length, look_ahead, Opening::kOldest);
}

Rows pack_longest_first(std::span<const std::uint32_t> sizes, std::uint32_t row_length) {
  return in_list_order(pack(sizes, row_length, sizes.size(), Opening::kLongest));
}

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

}  // namespace sweephand
