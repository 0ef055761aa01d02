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

// The begins of consecutive counts. If all but the last are equal, nothing is stored; otherwise
// copies share the memory.
class Starts {
 public:
  // Throws std::invalid_argument when the sum passes 2^63 - 1 `things`.
  Starts(std::span<const std::uint64_t> counts, const char* things);

  // Those counts `times` each, by which nothing is stored where nothing was. Throws as above.
  Starts(const Starts& starts, std::uint64_t times, const char* things);

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
    return (*sums_)[i];
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
  // num_counts_ + 1, which copies share; null if there is a common count
  std::shared_ptr<const std::vector<std::uint64_t>> sums_;
};

}  // namespace sweephand
