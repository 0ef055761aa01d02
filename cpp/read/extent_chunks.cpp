#include "read/extent_chunks.hpp"

#include "base/error.hpp"
#include "read/column_vector.hpp"
#include "read/extents.hpp"
#include "read/mapped_offsets.hpp"
#include "run/physical_memory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Offsets = std::vector<std::int64_t>;

struct OwnedColumn {
  ColumnVector<std::byte> values;
  Offsets sample_offsets;
  Offsets element_offsets;
};

// Shifts offsets to begin at 0. Those of a file may be any numbers, whose differences wrap.
Offsets rebased(Offsets offsets) {
  const auto base = static_cast<std::uint64_t>(offsets.front());
  for (std::int64_t& one : offsets)
    one = static_cast<std::int64_t>(static_cast<std::uint64_t>(one) - base);
  return offsets;
}

// The offsets of sequences [first, first + count), and the end of the last, which is within the
// samples of the column.
Offsets bounds_of(const Column& column, std::uint64_t first, std::uint64_t count) {
  if (column.sample_offsets == nullptr)
    return {static_cast<std::int64_t>(first), static_cast<std::int64_t>(first + count)};
  Offsets bounds(count + 1);
  read_offsets(column, [&] {
    std::copy_n(column.sample_offsets + first, bounds.size(), bounds.begin());
  });
  if (!ascends_within(bounds.front(), bounds.back(), column.num_samples))
    throw DataError("the offsets of its sequences are [" + std::to_string(bounds.front()) +
                    ", " + std::to_string(bounds.back()) + "), but there are " +
                    std::to_string(column.num_samples) + " samples");
  return bounds;
}

// Sequences [first, first + count) of a column that lies in extents, kept by `owned`.
Column read(const Column& column, std::uint64_t first, std::uint64_t count,
            OwnedColumn& owned) {
  Offsets bounds = bounds_of(column, first, count);
  const auto begin = static_cast<std::uint64_t>(bounds.front());
  const auto end = static_cast<std::uint64_t>(bounds.back());
  std::uint64_t first_element = begin * column.sample_elements;
  std::uint64_t last_element = end * column.sample_elements;
  if (column.element_offsets != nullptr) {
    const std::span offsets(column.element_offsets + begin, end - begin + 1);
    first_element = static_cast<std::uint64_t>(offsets.front());
    last_element = static_cast<std::uint64_t>(offsets.back());
    owned.element_offsets = rebased({offsets.begin(), offsets.end()});
  }
  if (column.sample_offsets != nullptr) owned.sample_offsets = rebased(std::move(bounds));
  if (last_element - first_element > physical_memory() / column.element_bytes)
    throw DataError("the chunk has " + std::to_string(last_element - first_element) +
                    " elements of " + std::to_string(column.element_bytes) +
                    " bytes, which is more than the memory there is");
  owned.values.resize((last_element - first_element) * column.element_bytes);
  read_untouched([&] {
    Extents::Reader reader(*column.extents);
    reader.read(first_element * column.element_bytes, owned.values);
    reader.check_unchanged();
  });
  Column result = column;
  result.extents = nullptr;
  result.mapped_offsets = nullptr;
  result.values = owned.values.data();
  result.num_sequences = count;
  result.num_samples = end - begin;
  result.num_elements = last_element - first_element;
  if (column.sample_offsets != nullptr) result.sample_offsets = owned.sample_offsets.data();
  if (column.element_offsets != nullptr) result.element_offsets = owned.element_offsets.data();
  return result;
}

// The same for a column that is held, in place.
Column part(const Column& column, std::uint64_t first, std::uint64_t count) {
  Column result = column;
  result.num_sequences = count;
  if (column.sample_offsets != nullptr) {
    result.sample_offsets += first;
    return result;
  }
  result.num_samples = count;
  if (column.element_offsets != nullptr) {
    result.element_offsets += first;
  } else {
    result.values += first * column.sample_elements * column.element_bytes;
  }
  return result;
}

}  // namespace

ExtentChunks::ExtentChunks(std::shared_ptr<const Chunk> corpus,
                           std::vector<std::uint64_t> starts)
    : corpus_(std::move(corpus)), starts_(std::move(starts)) {
  if (starts_.empty() || starts_.front() != 0 || starts_.back() != corpus_->num_sequences ||
      std::ranges::adjacent_find(starts_, std::greater_equal{}) != starts_.end())
    throw std::invalid_argument("the starts of chunks must ascend from 0 to the end");
}

std::shared_ptr<const Chunk> ExtentChunks::load(std::uint64_t chunk) {
  const std::uint64_t first = starts_.at(chunk);
  const std::uint64_t count = starts_.at(chunk + 1) - first;
  struct Owner {
    std::shared_ptr<const Chunk> corpus;  // of what is held
    std::deque<OwnedColumn> columns;
  };
  const auto owner = std::make_shared<Owner>(Owner{.corpus = corpus_, .columns = {}});
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = count;
  for (const Column& column : corpus_->columns) {
    if (column.extents == nullptr) {
      result->columns.push_back(part(column, first, count));
      continue;
    }
    OwnedColumn& owned = owner->columns.emplace_back();
    result->columns.push_back(read(column, first, count, owned));
    result->bytes +=
        owned.values.size() +
        (owned.sample_offsets.size() + owned.element_offsets.size()) * sizeof(std::int64_t);
  }
  const auto end_skipped = std::ranges::lower_bound(corpus_->skipped, first + count);
  for (auto at = std::ranges::lower_bound(corpus_->skipped, first); at != end_skipped; ++at)
    result->skipped.push_back(*at - first);
  result->owner = owner;
  return result;
}

}  // namespace sweephand
