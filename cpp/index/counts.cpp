#include "index/counts.hpp"

#include <limits>
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

// The product, or more than a corpus may hold if it is too large.
std::uint64_t times_or_most(std::uint64_t count, std::uint64_t times) {
  if (times != 0 && count > kMaxTotal / times) return kMaxTotal + 1;
  return count * times;
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

void GroupedCounts::Builder::append(std::uint64_t count) {
  check_total(total_, count, things_, size_);
  total_ += count;
  if (size_ == 0) first_ = count;
  if (!differs_ && size_ > 0 && (last_ != first_ || first_ == 0)) begin_to_store();
  if (differs_) store(count);
  last_ = count;
  ++size_;
}

// The counts before were equal except the last, or are all 0.
void GroupedCounts::Builder::begin_to_store() {
  differs_ = true;
  narrow_.reserve(num_counts_);
  groups_.reserve(num_counts_ / kGroup + 1);
  const std::uint64_t count = std::exchange(size_, 0);
  for (; size_ + 1 < count; ++size_) store(first_);
  store(last_);
  size_ = count;
}

void GroupedCounts::Builder::store(std::uint64_t count) {
  if (size_ % kGroup == 0) groups_.push_back(stored_);
  stored_ += count;
  if (wide_.empty() && count > std::numeric_limits<std::uint32_t>::max()) {
    wide_.reserve(num_counts_);
    wide_.assign(narrow_.begin(), narrow_.end());
    narrow_ = {};
    wide_.push_back(count);
  } else if (wide_.empty()) {
    narrow_.push_back(static_cast<std::uint32_t>(count));
  } else {
    wide_.push_back(count);
  }
}

GroupedCounts GroupedCounts::Builder::done() && {
  GroupedCounts counts;
  counts.num_counts_ = size_;
  counts.total_ = total_;
  if (!differs_ && first_ != 0) {
    counts.common_ = first_;
    return counts;
  }
  if (!differs_ && size_ > 0) begin_to_store();  // a single count, which is 0
  if (size_ % kGroup == 0) groups_.push_back(stored_);
  counts.narrow_ = SharedNumbers(std::move(narrow_));
  counts.wide_ = SharedNumbers(std::move(wide_));
  counts.groups_ = SharedNumbers(std::move(groups_));
  return counts;
}

GroupedCounts::GroupedCounts(std::span<const std::uint64_t> counts, const char* things) {
  Builder builder(counts.size(), things);
  for (const std::uint64_t count : counts) builder.append(count);
  *this = std::move(builder).done();
}

GroupedCounts::GroupedCounts(const Starts& starts, std::uint64_t times, const char* things) {
  if (starts.common() != 0 && times != 0 && starts.total() <= kMaxTotal / times) {
    num_counts_ = starts.num_counts();
    total_ = starts.total() * times;
    common_ = starts.common() * times;
    return;
  }
  Builder builder(starts.num_counts(), things);
  for (std::uint64_t i = 0; i < starts.num_counts(); ++i)
    builder.append(times_or_most(starts.count(i), times));
  *this = std::move(builder).done();
}

bool GroupedCounts::operator==(const GroupedCounts& other) const noexcept {
  return num_counts_ == other.num_counts_ && total_ == other.total_ &&
         common_ == other.common_ && std::ranges::equal(narrow_.view(), other.narrow_.view()) &&
         std::ranges::equal(wide_.view(), other.wide_.view());
}

std::vector<std::uint64_t> GroupedCounts::counts() const {
  return of_all<std::uint64_t>(num_counts_, [&](std::uint64_t i) { return (*this)[i]; });
}

std::vector<std::uint64_t> GroupedCounts::take(std::span<const std::uint64_t> numbers) const {
  return of_each(numbers, num_counts_, [&](std::uint64_t i) { return (*this)[i]; });
}

std::uint64_t GroupedCounts::sum(std::uint64_t count) const noexcept {
  if (common_ != 0) return count < num_counts_ ? count * common_ : total_;
  std::uint64_t sum = groups_[count / kGroup];
  for (std::uint64_t i = count / kGroup * kGroup; i < count; ++i) sum += (*this)[i];
  return sum;
}

}  // namespace sweephand
