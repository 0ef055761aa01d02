#include "read/extent_chunks.hpp"

#include "read/column_vector.hpp"
#include "read/extents.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

struct OwnedColumn {
  std::uint64_t num_samples = 0;
  ColumnVector<std::byte> values;
  std::vector<std::int64_t> sample_offsets;
};

// Sequences [first, first + count) of a column.
OwnedColumn read(const Column& column, std::uint64_t first, std::uint64_t count) {
  OwnedColumn result;
  const std::int64_t begin = column.begin(first);
  const std::int64_t end = column.end(first + count - 1);
  result.num_samples = static_cast<std::uint64_t>(end - begin);
  const std::uint64_t sample_bytes = column.element_bytes * column.sample_elements;
  result.values.resize(result.num_samples * sample_bytes);
  Extents::Reader reader(*column.extents);
  reader.read(static_cast<std::uint64_t>(begin) * sample_bytes, result.values);
  reader.check_unchanged();
  if (column.sample_offsets != nullptr) {
    const std::span offsets(column.sample_offsets + first, count + 1);
    result.sample_offsets.resize(offsets.size());
    std::ranges::transform(offsets, result.sample_offsets.begin(),
                           [begin](std::int64_t offset) { return offset - begin; });
  }
  return result;
}

}  // namespace

ExtentChunks::ExtentChunks(std::shared_ptr<const Chunk> corpus,
                           std::vector<std::uint64_t> starts)
    : corpus_(std::move(corpus)), starts_(std::move(starts)) {
  const auto lies_bare = [](const Column& column) {
    return column.extents != nullptr && column.element_offsets == nullptr;
  };
  if (!std::ranges::all_of(corpus_->columns, lies_bare))
    throw std::invalid_argument("a column does not lie in extents");
  if (starts_.empty() || starts_.front() != 0 || starts_.back() != corpus_->num_sequences ||
      std::ranges::adjacent_find(starts_, std::greater_equal{}) != starts_.end())
    throw std::invalid_argument("the starts of chunks must ascend from 0 to the end");
}

std::shared_ptr<const Chunk> ExtentChunks::load(std::uint64_t chunk) {
  const std::uint64_t first = starts_.at(chunk);
  const std::uint64_t count = starts_.at(chunk + 1) - first;
  const auto owned = std::make_shared<std::vector<OwnedColumn>>();
  const auto result = std::make_shared<Chunk>();
  result->num_sequences = count;
  for (const Column& column : corpus_->columns) {
    const OwnedColumn& read_now = owned->emplace_back(read(column, first, count));
    result->bytes +=
        read_now.values.size() + read_now.sample_offsets.size() * sizeof(std::int64_t);
  }
  const auto end_skipped = std::ranges::lower_bound(corpus_->skipped, first + count);
  for (auto at = std::ranges::lower_bound(corpus_->skipped, first); at != end_skipped; ++at)
    result->skipped.push_back(*at - first);
  result->columns = corpus_->columns;
  for (std::size_t i = 0; i < owned->size(); ++i) {
    Column& column = result->columns[i];
    column.extents = nullptr;
    column.values = (*owned)[i].values.data();
    column.num_sequences = count;
    column.num_samples = (*owned)[i].num_samples;
    if (column.sample_offsets != nullptr)
      column.sample_offsets = (*owned)[i].sample_offsets.data();
  }
  result->owner = owned;
  return result;
}

}  // namespace sweephand
