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

}  // namespace sweephand
