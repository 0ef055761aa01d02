#include "index/grouped_counts.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace sweephand {
namespace {

// The product, or more than a corpus may hold if it is too large.
std::uint64_t times_or_most(std::uint64_t count, std::uint64_t times) {
  if (times != 0 && count > kMaxTotal / times) return kMaxTotal + 1;
  return count * times;
}

}  // namespace

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
