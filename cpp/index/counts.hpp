// Common code of classes that store counts: memory shared among copies, and limits of sums.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kMaxTotal = (std::uint64_t{1} << 63U) - 1;

// Throws std::invalid_argument when `total` things of the chunks before `chunk`, which are not
// more than kMaxTotal, are so with `more` of it.
void check_total(std::uint64_t total, std::uint64_t more, const char* things,
                 std::uint64_t chunk);

// Throws std::out_of_range when `number` is not below `end`.
void check_inside(std::uint64_t number, std::uint64_t end);

// The value of `of` for each of `numbers`. Throws std::out_of_range when one is not below
// `end`.
template <class Of>
std::vector<std::uint64_t> of_each(std::span<const std::uint64_t> numbers, std::uint64_t end,
                                   const Of& of) {
  std::vector<std::uint64_t> found(numbers.size());
  std::ranges::transform(numbers, found.begin(), [&](std::uint64_t number) {
    check_inside(number, end);
    return of(number);
  });
  return found;
}

// The value of `of` for each number below `end`.
template <class T, class Of>
std::vector<T> of_all(std::uint64_t end, const Of& of) {
  std::vector<T> found(end);
  for (std::uint64_t i = 0; i < end; ++i) found[i] = static_cast<T>(of(i));
  return found;
}

// Numbers that do not change, which copies share.
template <class T>
class SharedNumbers {
 public:
  SharedNumbers() = default;
  explicit SharedNumbers(std::vector<T>&& numbers)
      : owner_(std::make_shared<const std::vector<T>>(std::move(numbers))), view_(*owner_) {}

  T operator[](std::uint64_t i) const noexcept { return view_[i]; }
  const std::span<const T>& view() const noexcept { return view_; }

 private:
  std::shared_ptr<const std::vector<T>> owner_;
  std::span<const T> view_;
};

// The begins of consecutive counts. If all but the last are equal, nothing is stored; otherwise
// copies share the memory.
class Starts {
 public:
  // Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
  Starts(std::span<const std::uint64_t> counts, const char* things);

  // By where each begins, and the end. REQUIRES: they ascend from 0 to at most 2^63 - 1
  static Starts at(std::vector<std::uint64_t> sums);

  // `total` items, `each` to a count, and the rest in the last one. REQUIRES: each > 0
  static Starts even(std::uint64_t total, std::uint64_t each, const char* things);

  std::uint64_t num_counts() const noexcept { return num_counts_; }
  std::uint64_t total() const noexcept { return total_; }

  // The common value of all counts but the last; 0 if they differ.
  std::uint64_t common() const noexcept { return common_; }

  // Where count i begins; i may be num_counts().
  std::uint64_t operator[](std::uint64_t i) const noexcept {
    if (common_ != 0) return i < num_counts_ ? i * common_ : total_;
    return sums_[i];
  }

  std::uint64_t count(std::uint64_t i) const noexcept { return (*this)[i + 1] - (*this)[i]; }

  // The last one that begins at or before `value`, so that empty ones, which share a start, are
  // passed. Logarithmic. REQUIRES: value < total()
  std::uint64_t last_at_or_before(std::uint64_t value) const noexcept;

  bool operator==(const Starts& other) const noexcept;

  std::vector<std::uint64_t> counts() const;

  // Where each begins, and the end.
  std::vector<std::int64_t> offsets() const;

  // Where one begins and ends. Throws std::out_of_range.
  std::pair<std::uint64_t, std::uint64_t> bounds(std::uint64_t number) const;

  // Where each of those begins, and which each of those values is in. Throw std::out_of_range.
  std::vector<std::uint64_t> take(std::span<const std::uint64_t> numbers) const;
  std::vector<std::uint64_t> find(std::span<const std::uint64_t> values) const;

 private:
  Starts() = default;

  std::uint64_t num_counts_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t common_ = 0;
  SharedNumbers<std::uint64_t> sums_;  // num_counts_ + 1; none if there is a common count
};

// Counts in little memory.
// Counts that are mostly read one by one: in four bytes each where they fit, with the begins of
// groups. If all but the last are equal, nothing is stored; otherwise copies share the memory.
class GroupedCounts {
 public:
  // Takes counts from the first to the last, and holds only those that it keeps.
  class Builder {
   public:
    // The sum may be 2^63 - 1 `things`.
    Builder(std::uint64_t num_counts, const char* things)
        : num_counts_(num_counts), things_(things) {}

    // Throws std::invalid_argument when the sum passes that.
    void append(std::uint64_t count);
    GroupedCounts done() &&;

   private:
    void begin_to_store();
    void store(std::uint64_t count);

    std::uint64_t num_counts_;
    const char* things_;
    std::uint64_t size_ = 0;
    std::uint64_t total_ = 0;
    std::uint64_t first_ = 0;
    std::uint64_t last_ = 0;
    bool differs_ = false;  // some count before the last one
    std::vector<std::uint32_t> narrow_;
    std::vector<std::uint64_t> wide_;
    std::vector<std::uint64_t> groups_;
    std::uint64_t stored_ = 0;  // the sum of those that are stored
  };

  // Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
  GroupedCounts(std::span<const std::uint64_t> counts, const char* things);

  // Those counts `times` each, by which nothing is stored where nothing was.
  GroupedCounts(const Starts& starts, std::uint64_t times, const char* things);

  std::uint64_t num_counts() const noexcept { return num_counts_; }
  std::uint64_t total() const noexcept { return total_; }

  // The common value of all counts but the last; 0 if they differ.
  std::uint64_t common() const noexcept { return common_; }

  // REQUIRES: there is an i-th one
  std::uint64_t operator[](std::uint64_t i) const noexcept {
    if (common_ != 0) return i + 1 < num_counts_ ? common_ : total_ - i * common_;
    return wide_.view().empty() ? narrow_[i] : wide_[i];
  }

  // The sum of the first `count` of them, which adds up those of a group. REQUIRES: there are
  // as many
  std::uint64_t sum(std::uint64_t count) const noexcept;

  bool operator==(const GroupedCounts& other) const noexcept;

  std::vector<std::uint64_t> counts() const;

  // Each of those. Throws std::out_of_range.
  std::vector<std::uint64_t> take(std::span<const std::uint64_t> numbers) const;

 private:
  static constexpr std::uint64_t kGroup = 32;

  GroupedCounts() = default;

  std::uint64_t num_counts_ = 0;
  std::uint64_t total_ = 0;
  std::uint64_t common_ = 0;
  SharedNumbers<std::uint32_t> narrow_;  // if they differ and all fit
  SharedNumbers<std::uint64_t> wide_;    // if they differ and some do not
  SharedNumbers<std::uint64_t> groups_;  // the sum of those before each group, if they differ
};

}  // namespace sweephand
