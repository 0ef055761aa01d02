// Counts in little memory.
#pragma once

#include "index/counts.hpp"
#include "index/starts.hpp"

#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Counts that are mostly read one by one: in four bytes each where they fit, with the begins of
// groups. If all but the last are equal, nothing is stored; otherwise copies share the memory.
class GroupedCounts {
 public:
  // Takes counts from the first to the last, and holds no more of them than is kept.
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
