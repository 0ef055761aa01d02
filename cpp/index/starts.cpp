#include "index/starts.hpp"

#include <algorithm>
#include <utility>

namespace sweephand {
namespace {

// The common value of all counts but the last; 0 if they differ.
std::uint64_t common_of(std::span<const std::uint64_t> counts) {
  if (counts.empty()) return 0;
  const auto all_but_last = counts.first(counts.size() - 1);
  const bool is_common =
      std::ranges::all_of(all_but_last, [&](auto count) { return count == counts[0]; });
  return is_common ? counts[0] : 0;
}

}  // namespace

Starts::Starts(std::span<const std::uint64_t> counts, const char* things)
    : num_counts_(counts.size()), common_(common_of(counts)) {
  for (std::size_t i = 0; i < counts.size(); ++i) {
    check_total(total_, counts[i], things, i);
    total_ += counts[i];
  }
  if (common_ != 0) return;
  std::vector<std::uint64_t> sums;
  sums.reserve(counts.size() + 1);
  sums.push_back(0);
  for (const std::uint64_t count : counts) sums.push_back(sums.back() + count);
  sums_ = SharedNumbers(std::move(sums));
}

Starts Starts::at(std::vector<std::uint64_t> sums) {
  Starts starts;
  starts.num_counts_ = sums.size() - 1;
  starts.total_ = sums.back();
  const std::uint64_t each = starts.num_counts_ == 0 ? 0 : sums[1];
  std::uint64_t i = 0;
  while (i < starts.num_counts_ && sums[i] == i * each) ++i;
  if (i == starts.num_counts_) starts.common_ = each;
  if (starts.common_ == 0) starts.sums_ = SharedNumbers(std::move(sums));
  return starts;
}

Starts Starts::even(std::uint64_t total, std::uint64_t each, const char* things) {
  check_total(0, total, things, 0);
  if (total == 0) return {std::span<const std::uint64_t>(), things};
  Starts starts;
  starts.num_counts_ = (total - 1) / each + 1;
  starts.total_ = total;
  starts.common_ = std::min(total, each);
  return starts;
}

std::uint64_t Starts::last_at_or_before(std::uint64_t value) const noexcept {
  if (common_ != 0) return std::min(value / common_, num_counts_ - 1);
  const std::span sums = sums_.view();
  const auto after = std::upper_bound(sums.begin(), sums.end(), value);
  return static_cast<std::uint64_t>(after - sums.begin()) - 1;
}

std::vector<std::uint64_t> Starts::counts() const {
  return of_all<std::uint64_t>(num_counts_, [&](std::uint64_t i) { return count(i); });
}

std::vector<std::int64_t> Starts::offsets() const {
  return of_all<std::int64_t>(num_counts_ + 1, [&](std::uint64_t i) { return (*this)[i]; });
}

std::pair<std::uint64_t, std::uint64_t> Starts::bounds(std::uint64_t number) const {
  check_inside(number, num_counts_);
  return {(*this)[number], (*this)[number + 1]};
}

std::vector<std::uint64_t> Starts::take(std::span<const std::uint64_t> numbers) const {
  return of_each(numbers, num_counts_ + 1, [&](std::uint64_t i) { return (*this)[i]; });
}

std::vector<std::uint64_t> Starts::find(std::span<const std::uint64_t> values) const {
  return of_each(values, total_, [&](std::uint64_t value) { return last_at_or_before(value); });
}

bool Starts::operator==(const Starts& other) const noexcept {
  return num_counts_ == other.num_counts_ && total_ == other.total_ &&
         common_ == other.common_ && std::ranges::equal(sums_.view(), other.sums_.view());
}

}  // namespace sweephand
