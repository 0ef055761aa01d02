#include "order/permutation.hpp"

#include "order/fisher_yates.hpp"

#include <algorithm>
#include <numeric>

namespace sweephand {
namespace {

std::vector<std::uint32_t> fisher_yates(std::uint64_t size, std::uint64_t key) {
  std::vector<std::uint32_t> table(size);
  std::iota(table.begin(), table.end(), 0U);
  FisherYates<std::uint32_t>(table, key).deal_down_to(0);
  return table;
}

}  // namespace

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
