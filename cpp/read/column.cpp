#include "read/column.hpp"

#include <limits>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

void require(bool fits, const char* array, std::uint64_t num_samples) {
  if (fits) return;
  throw std::invalid_argument("the " + std::string(array) + " of a column end before its " +
                              std::to_string(num_samples) + " samples do");
}

}  // namespace

Column bounded(Column column, std::uint64_t num_samples, const ColumnExtent& extent) {
  column.num_samples = num_samples;
  column.num_sequences =
      column.sample_offsets != nullptr ? extent.sample_offsets - 1 : num_samples;
  if (column.sample_offsets != nullptr)
    require(extent.sample_offsets > 0, "sample offsets", num_samples);
  if (column.element_offsets != nullptr) {
    require(extent.element_offsets > num_samples, "element offsets", num_samples);
    column.num_elements =
        column.element_bytes == 0 ? 0 : extent.value_bytes / column.element_bytes;
    if (column.indices != nullptr)
      require(extent.indices >= column.num_elements, "indices", num_samples);
    return column;
  }
  constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();
  const bool countable =
      column.element_bytes == 0 || column.sample_elements <= kMost / column.element_bytes;
  require(countable, "values", num_samples);
  const std::uint64_t sample_bytes = column.element_bytes * column.sample_elements;
  require(sample_bytes == 0 || num_samples <= extent.value_bytes / sample_bytes, "values",
          num_samples);
  return column;
}

}  // namespace sweephand
