#include "index/loss_masks.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

[[noreturn]] void refuse() { throw std::invalid_argument("loss masks are no ascending runs"); }

}  // namespace

LossMasks::LossMasks(std::vector<std::int64_t> offsets, std::vector<std::uint32_t> bounds)
    : offsets_(std::move(offsets)), bounds_(std::move(bounds)) {
  if (offsets_.empty() || offsets_.front() != 0 || !std::ranges::is_sorted(offsets_) ||
      offsets_.back() != static_cast<std::int64_t>(bounds_.size())) {
    refuse();
  }
  for (std::size_t s = 0; s + 1 < offsets_.size(); ++s) {
    const auto begin = static_cast<std::size_t>(offsets_[s]);
    const auto count = static_cast<std::size_t>(offsets_[s + 1]) - begin;
    const auto runs = std::span(bounds_).subspan(begin, count);
    if (count % 2 != 0 ||
        std::ranges::adjacent_find(runs, std::greater_equal<>{}) != runs.end())
      refuse();
  }
}

std::uint64_t LossMasks::count(std::uint64_t sequence, std::uint64_t begin,
                               std::uint64_t end) const noexcept {
  const auto last = static_cast<std::size_t>(offsets_[sequence + 1]);
  std::uint64_t found = 0;
  for (auto j = static_cast<std::size_t>(offsets_[sequence]); j < last; j += 2) {
    const std::uint64_t from = std::max<std::uint64_t>(begin, bounds_[j]);
    const std::uint64_t to = std::min<std::uint64_t>(end, bounds_[j + 1]);
    if (from < to) found += to - from;
  }
  return found;
}

}  // namespace sweephand
