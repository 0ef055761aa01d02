#include "formats/ledger.hpp"

#include <cstddef>
#include <utility>

namespace sweephand {

void Ledger::add(Item item) {
  ++num_items_;
  if (!item.caused_by) {
    offsets_.push_back(item.place.offset.value_or(0));
    if (num_charged() == max_errors_ + 1) beyond_ = item;
  }
  if (items_.size() < kMaxListed) items_.push_back(std::move(item));
}

void Ledger::append(const Ledger& part, std::uint64_t first_line, bool keys_are_lines) {
  const std::uint64_t charged_before = num_charged();
  for (Item item : part.items_) {
    if (item.place.line) *item.place.line += first_line;
    if (keys_are_lines && item.place.sequence) *item.place.sequence += first_line;
    add(std::move(item));
  }
  // Items that the part counted without listing them.
  const auto listed = static_cast<std::ptrdiff_t>(num_charged() - charged_before);
  offsets_.insert(offsets_.end(), part.offsets_.begin() + listed, part.offsets_.end());
  num_items_ += part.num_items_ - part.items_.size();
}

void Ledger::check() const {
  if (beyond_) throw DataError(describe(*beyond_), beyond_->place);
  if (is_exhausted())
    throw DataError("more than " + std::to_string(max_errors_) +
                    " errors, the limit of max_errors");
}

std::string describe(const Item& item) {
  if (item.column == 0) return item.reason;
  return "column " + std::to_string(item.column) + ": " + item.reason;
}

}  // namespace sweephand
