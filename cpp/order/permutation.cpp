#include "order/permutation.hpp"

#include "base/mix.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

std::vector<std::uint32_t> fisher_yates(std::uint64_t size, std::uint64_t key) {
  std::vector<std::uint32_t> table(size);
  std::iota(table.begin(), table.end(), 0U);
  for (std::uint64_t i = size; i-- > 1;) {
    std::swap(table[i], table[scale(mix64(key + kGolden * i), i + 1)]);
  }
  return table;
}

std::uint64_t ceil_sqrt(std::uint64_t value) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit >>= 1) {
    const std::uint64_t larger = root | bit;
    if (larger * larger <= value) root = larger;
  }
  return root * root < value ? root + 1 : root;
}

}  // namespace

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  if (size <= kTableSize) {
    table_ = fisher_yates(size, key);
    return;
  }
  side_ = ceil_sqrt(size);
  inverse_ = ~std::uint64_t{0} / side_;
  for (std::size_t round = 0; round < kRounds; ++round) {
    keys_[round] = mix64(key + kGolden * (round + 1));
  }
}

// word / side_: the product is at most one too small, since word < 2^63.
std::uint64_t Permutation::row_of(std::uint64_t word) const {
  const std::uint64_t row = scale(word, inverse_);
  return row + (word - row * side_ >= side_);
}

std::uint64_t Permutation::encrypt(std::uint64_t word) const {
  encrypt({&word, 1});
  return word;
}

// Round by round over a group of words: they do not wait for each other in the processor.
void Permutation::encrypt(std::span<std::uint64_t> words) const {
  constexpr std::size_t kGroup = 8;
  std::array<std::uint64_t, kGroup> left{};
  std::array<std::uint64_t, kGroup> right{};
  for (std::size_t first = 0; first < words.size(); first += kGroup) {
    const std::span group = words.subspan(first, std::min(kGroup, words.size() - first));
    for (std::size_t i = 0; i < group.size(); ++i) {
      left[i] = row_of(group[i]);
      right[i] = group[i] - left[i] * side_;
    }
    for (const std::uint64_t key : keys_) {
      for (std::size_t i = 0; i < kGroup; ++i) {
        const std::uint64_t sum = left[i] + scale(mix64(right[i] + key), side_);
        left[i] = right[i];
        right[i] = std::min(sum, sum - side_);  // modulo side_: below it the difference wraps
      }
    }
    for (std::size_t i = 0; i < group.size(); ++i) group[i] = left[i] * side_ + right[i];
  }
}

std::uint64_t Permutation::decrypt(std::uint64_t word) const {
  std::uint64_t u = row_of(word);
  std::uint64_t v = word - u * side_;
  for (std::size_t round = kRounds; round-- > 0;) {
    const std::uint64_t shift = scale(mix64(u + keys_[round]), side_);
    const std::uint64_t difference = v >= shift ? v - shift : v + side_ - shift;
    v = u;
    u = difference;
  }
  return u * side_ + v;
}

std::uint64_t Permutation::walk(std::uint64_t word) const {
  while (word >= size_) word = encrypt(word);
  return word;
}

void Permutation::fill(std::uint64_t first, std::span<std::uint64_t> out) const {
  if (!table_.empty()) {
    std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
    return;
  }
  std::iota(out.begin(), out.end(), first);
  encrypt(out);
  for (std::uint64_t& word : out) word = walk(word);
}

std::uint64_t Permutation::item(std::uint64_t place) const {
  return table_.empty() ? walk(encrypt(place)) : table_[place];
}

std::uint64_t Permutation::place(std::uint64_t item) const {
  if (!table_.empty()) {
    const auto found =
        std::find(table_.begin(), table_.end(), static_cast<std::uint32_t>(item));
    return static_cast<std::uint64_t>(found - table_.begin());
  }
  std::uint64_t word = decrypt(item);
  while (word >= size_) word = decrypt(word);
  return word;
}

}  // namespace sweephand
