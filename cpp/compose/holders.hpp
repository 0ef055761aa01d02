// Which corpora of a mixture have a piece of a size.
#pragma once

#include "compose/sight.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {

// Numbers of corpora, a bit each.
class CorpusBits {
 public:
  explicit CorpusBits(std::size_t num_corpora) : words_((num_corpora + 63) / 64) {}

  void set(std::uint32_t corpus, bool is_in) {
    const std::uint64_t bit = std::uint64_t{1} << corpus % 64;
    words_[corpus / 64] = is_in ? words_[corpus / 64] | bit : words_[corpus / 64] & ~bit;
  }
  std::span<const std::uint64_t> words() const { return words_; }

 private:
  std::vector<std::uint64_t> words_;
};

// Which corpora have a piece of each size in sight: one look finds the largest that any has.
class Holders {
 public:
  static constexpr std::uint32_t kNone = BitTree::kNone;
  static constexpr std::size_t kMostWords = std::size_t{1} << 17;

  // Little enough to be made for every pack.
  static bool suits(std::size_t num_corpora, std::uint32_t row_length) {
    return (num_corpora + 63) / 64 <= kMostWords / (std::size_t{row_length} + 1);
  }

  Holders(std::size_t num_corpora, std::uint32_t row_length)
      : num_words_((num_corpora + 63) / 64),
        words_((std::size_t{row_length} + 1) * num_words_),
        sizes_(std::size_t{row_length} + 2) {}

  void insert(std::uint32_t size, std::uint32_t corpus) {
    words_[size * num_words_ + corpus / 64] |= std::uint64_t{1} << corpus % 64;
    sizes_.insert(size);
  }
  void erase(std::uint32_t size, std::uint32_t corpus) {
    words_[size * num_words_ + corpus / 64] &= ~(std::uint64_t{1} << corpus % 64);
    const auto words = of(size);
    sizes_.erase(size,
                 std::ranges::any_of(words, [](std::uint64_t word) { return word != 0; }));
  }

  // The largest size below a bound that any corpus has; kNone if there is none.
  std::uint32_t largest_below(std::uint32_t bound) const { return sizes_.largest_below(bound); }

  // Calls visit(corpus) for each of `wanted` that has a piece of that size.
  template <class Visit>
  void each(std::uint32_t size, const CorpusBits& wanted, const Visit& visit) const {
    const auto words = of(size);
    for (std::uint32_t i = 0; i < num_words_; ++i) {
      for (std::uint64_t left = words[i] & wanted.words()[i]; left != 0; left &= left - 1) {
        visit(i * 64 + static_cast<std::uint32_t>(std::countr_zero(left)));
      }
    }
  }

 private:
  std::span<const std::uint64_t> of(std::uint32_t size) const {
    return std::span(words_).subspan(size * num_words_, num_words_);
  }

  std::size_t num_words_;             // of a size
  std::vector<std::uint64_t> words_;  // of each size the corpora
  BitTree sizes_;                     // that some corpus has
};

}  // namespace sweephand
