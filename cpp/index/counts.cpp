#include "index/counts.hpp"

#include <stdexcept>
#include <string>

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

void check_total(std::uint64_t total, std::uint64_t more, const char* things,
                 std::uint64_t chunk) {
  if (more <= kMaxTotal - total) return;
  throw std::invalid_argument(std::string("a corpus may hold at most 2^63 - 1 ") + things +
                              ", passed in chunk " + std::to_string(chunk));
}

void check_inside(std::uint64_t number, std::uint64_t end) {
  if (number < end) return;
  throw std::out_of_range("there is no " + std::to_string(number) + " among " +
                          std::to_string(end));
}

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
  sums_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(sums));
}

Starts::Starts(const Starts& starts, std::uint64_t times, const char* things) {
  if (times != 0 && starts.total_ > kMaxTotal / times)
    check_total(kMaxTotal, 1, things, starts.last_at_or_before(kMaxTotal / times));
  if (times != 0 && starts.common_ != 0) {
    *this = starts;
    total_ *= times;
    common_ *= times;
    return;
  }
  std::vector<std::uint64_t> sums(starts.num_counts_ + 1);
  for (std::uint64_t i = 0; i < sums.size(); ++i) sums[i] = starts[i] * times;
  *this = at(std::move(sums));
}

Starts Starts::at(std::vector<std::uint64_t> sums) {
  Starts starts;
  starts.num_counts_ = sums.size() - 1;
  starts.total_ = sums.back();
  const std::uint64_t each = starts.num_counts_ == 0 ? 0 : sums[1];
  std::uint64_t i = 0;
  while (i < starts.num_counts_ && sums[i] == i * each) ++i;
  if (i == starts.num_counts_) starts.common_ = each;
  if (starts.common_ == 0)
    starts.sums_ = std::make_shared<const std::vector<std::uint64_t>>(std::move(sums));
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
  const auto after = std::ranges::upper_bound(*sums_, value);
  return static_cast<std::uint64_t>(after - sums_->begin()) - 1;
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
         common_ == other.common_ &&
         (sums_ == other.sums_ || (sums_ && *sums_ == *other.sums_));
}

}  // namespace sweephand
