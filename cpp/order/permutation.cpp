#include "order/permutation.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace sweephand {
namespace {

constexpr std::uint64_t kLargestLooked = std::uint64_t{1} << 16;  // shifts fit 16 bits

std::uint64_t ceil_sqrt(std::uint64_t value) {
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << 31; bit != 0; bit >>= 1) {
    const std::uint64_t larger = root | bit;
    if (larger * larger <= value) root = larger;
  }
  return root * root < value ? root + 1 : root;
}

constexpr std::size_t kRounds = 8;

// Words that go through the network in parallel, so that the processor does not wait for one of
// them: each as its row and column in the square.
template <class Half>
struct Group {
  static constexpr std::size_t kSize = 8;

  std::array<Half, kSize> row;
  std::array<Half, kSize> column;
};

// (u, v) -> (v, (u + shift(v)) mod side), round after round.
template <class Shift, class Half>
void encrypt_group(const Shift& shift, Group<Half>& group) {
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < group.kSize; ++i) {
      const Half sum = group.row[i] + shift(round, group.column[i]);
      group.row[i] = group.column[i];
      // Modulo side: below it the difference wraps.
      group.column[i] = std::min<Half>(sum, sum - shift.side);
    }
  }
}

// The rounds backwards: (u, v) -> ((v - shift(u)) mod side, u).
template <class Shift, class Half>
void decrypt_group(const Shift& shift, Group<Half>& group) {
  for (std::size_t round = kRounds; round-- > 0;) {
#pragma GCC unroll 8
    for (std::size_t i = 0; i < group.kSize; ++i) {
      const Half difference = group.column[i] - shift(round, group.row[i]);
      group.column[i] = group.row[i];
      group.row[i] = std::min<Half>(difference, difference + shift.side);
    }
  }
}

std::vector<std::uint32_t> fisher_yates(std::uint64_t size, std::uint64_t key) {
  std::vector<std::uint32_t> table(size);
  std::iota(table.begin(), table.end(), 0U);
  FisherYates<std::uint32_t>(table, key).deal_down_to(0);
  return table;
}

}  // namespace

struct Feistel::Computed {
  using Half = std::uint64_t;

  const std::array<std::uint64_t, kRounds>& keys;
  Half side;

  Half operator()(std::size_t round, Half half) const noexcept {
    return scale(mix64(half + keys[round]), side);
  }
};

struct Feistel::Looked {
  using Half = std::uint32_t;

  const std::uint16_t* shifts;
  Half side;

  Half operator()(std::size_t round, Half half) const noexcept {
    return shifts[round * side + half];
  }
};

Feistel::Feistel(std::uint64_t size, std::uint64_t key) : size_(size), side_(ceil_sqrt(size)) {
  for (std::size_t round = 0; round < kRounds; ++round) {
    keys_[round] = mix64(key + kGolden * (round + 1));
  }
  if (side_ > kLargestLooked) return;
  const Computed shift{.keys = keys_, .side = side_};
  shifts_.reserve(kRounds * side_);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::uint64_t half = 0; half < side_; ++half) {
      shifts_.push_back(static_cast<std::uint16_t>(shift(round, half)));
    }
  }
}

// Writes the results of a step for the words from `first` on; a result beyond size_, which is
// rare, goes through the step again.
template <class Shift, class Step>
void Feistel::walk(std::uint64_t first, std::span<std::uint64_t> out, const Shift& shift,
                   const Step& step) const {
  using Half = typename Shift::Half;
  using Words = Group<Half>;
  Half row = static_cast<Half>(first / side_);
  Half column = static_cast<Half>(first % side_);
  std::array<std::uint64_t, Words::kSize> made{};
  for (std::size_t done = 0; done < out.size(); done += made.size()) {
    Words group;
    for (std::size_t i = 0; i < made.size(); ++i) {
      group.row[i] = row;
      group.column[i] = column++;
      if (column == shift.side) {
        column = 0;
        row = row + 1 == shift.side ? 0 : row + 1;  // words after the square are not used
      }
    }
    step(shift, group);
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < made.size(); ++i) {
      made[i] = group.row[i] * side_ + group.column[i];
      most = std::max(most, made[i]);
    }
    // Words after the last may never come below size_.
    const std::span wanted = std::span(made).first(std::min(made.size(), out.size() - done));
    if (most >= size_) {
      for (std::uint64_t& word : wanted) {
        while (word >= size_) walk(word, std::span(&word, 1), shift, step);
      }
    }
    if (wanted.size() == made.size()) {
      std::memcpy(&out[done], made.data(), sizeof(made));  // of a size that is known
    } else {
      std::ranges::copy(wanted, out.begin() + static_cast<std::ptrdiff_t>(done));
    }
  }
}

template <class Step>
void Feistel::walk(std::uint64_t first, std::span<std::uint64_t> out, const Step& step) const {
  if (shifts_.empty()) {
    walk(first, out, Computed{.keys = keys_, .side = side_}, step);
  } else {
    const auto side = static_cast<std::uint32_t>(side_);
    walk(first, out, Looked{.shifts = shifts_.data(), .side = side}, step);
  }
}

void Feistel::encrypt(std::uint64_t first, std::span<std::uint64_t> out) const {
  walk(first, out, [](const auto& shift, auto& group) { encrypt_group(shift, group); });
}

void Feistel::decrypt(std::uint64_t first, std::span<std::uint64_t> out) const {
  walk(first, out, [](const auto& shift, auto& group) { decrypt_group(shift, group); });
}

Permutation::Permutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  if (size <= kTableSize) {
    table_ = fisher_yates(size, key);
  } else {
    network_.emplace(size, key);
  }
}

void Permutation::fill(std::uint64_t first, std::span<std::uint64_t> out) const {
  if (network_) {
    network_->encrypt(first, out);
  } else {
    std::copy_n(table_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
  }
}

void Permutation::places(std::uint64_t first, std::span<std::uint64_t> out) const {
  network_->decrypt(first, out);  // NOLINT(bugprone-unchecked-optional-access): REQUIRES
}

std::uint64_t Permutation::item(std::uint64_t place) const {
  std::uint64_t item = 0;
  fill(place, std::span(&item, 1));
  return item;
}

std::uint64_t Permutation::place(std::uint64_t item) const {
  if (is_table()) {
    const auto found =
        std::find(table_.begin(), table_.end(), static_cast<std::uint32_t>(item));
    return static_cast<std::uint64_t>(found - table_.begin());
  }
  std::uint64_t place = 0;
  places(item, std::span(&place, 1));
  return place;
}

}  // namespace sweephand
