// Errors in a file: counted, and listed up to a limit, within a budget.
#pragma once

#include "base/error.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace sweephand {

struct Item {
  std::string reason;
  Place place;
  std::uint64_t column = 0;                // from 1, in bytes; 0 when the whole line is meant
  std::optional<std::uint64_t> caused_by;  // the offset of an earlier item that led to this one
};

// Only items without a cause are charged to the budget, so that a bad line counts once.
class Ledger {
 public:
  static constexpr std::uint64_t kMaxListed = 10000;

  explicit Ledger(std::uint64_t max_errors) : max_errors_(max_errors) {}

  void add(Item item);

  // Adds the items of a later part of the same file, whose first line is number `first_line`
  // from 0. `keys_are_lines` says that a sequence is known by the number of its line.
  void append(const Ledger& part, std::uint64_t first_line, bool keys_are_lines);

  // True if more was charged than the budget allows.
  bool is_exhausted() const noexcept { return num_charged() > max_errors_; }

  // Throws the first item beyond the budget as a DataError.
  void check() const;

  const std::vector<Item>& items() const noexcept { return items_; }  // the first kMaxListed
  const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }  // charged
  std::uint64_t num_items() const noexcept { return num_items_; }
  std::uint64_t num_charged() const noexcept { return offsets_.size(); }

 private:
  std::uint64_t max_errors_;
  std::vector<Item> items_;
  std::vector<std::uint64_t> offsets_;
  std::uint64_t num_items_ = 0;
  std::optional<Item> beyond_;  // the first item beyond the budget
};

// "column 7: reason", or the reason alone.
std::string describe(const Item& item);

}  // namespace sweephand
