#include "read/column.hpp"

#include <cerrno>
#include <limits>
#include <stdexcept>
#include <string>
#include <sys/mman.h>
#include <system_error>

namespace sweephand {
namespace {

void require(bool fits, const char* array, std::uint64_t num_samples) {
  if (fits) return;
  throw std::invalid_argument("the " + std::string(array) + " of a column end before its " +
                              std::to_string(num_samples) + " samples do");
}

constexpr std::size_t kMostFree = std::size_t{64} << 20;  // bytes

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

BlockPool& column_pool() {
  // NOLINTNEXTLINE(cppcoreguidelines-owning-memory): nobody owns it
  static auto* const only = new BlockPool(kMostFree);
  return *only;
}

std::shared_ptr<std::uint8_t> take_bytes(std::size_t size) {
  ColumnAllocator<std::uint8_t> allocator;
  return {allocator.allocate(size), [size](std::uint8_t* bytes) {
            ColumnAllocator<std::uint8_t>().deallocate(bytes, size);
          }};
}

Segment::Segment(int descriptor, std::uint64_t size) {
  // All pages are read soon: one call instead of a fault for every page.
  void* const place =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, descriptor, 0);
  if (place == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map shared memory");
  bytes_ = {static_cast<std::byte*>(place), size};
}

Segment::Segment(Segment&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

Segment::~Segment() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

}  // namespace sweephand
