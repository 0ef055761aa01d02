#include "formats/cbf.hpp"

#include "base/element.hpp"
#include "base/error.hpp"
#include "base/little_endian.hpp"
#include "read/column_vector.hpp"

#include <bit>
#include <cstring>
#include <deque>
#include <limits>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMostIndex = std::numeric_limits<std::int32_t>::max();

// The rest of a chunk.
class Rest {
 public:
  explicit Rest(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {}

  std::uint64_t at() const noexcept { return size_ - bytes_.size(); }
  bool is_empty() const noexcept { return bytes_.empty(); }

  // The next `count` items of `width` bytes.
  std::span<const std::byte> take(std::uint64_t count, std::uint64_t width) {
    if (width != 0 && count > bytes_.size() / width)
      throw DataError("the chunk ends within a sequence", {.offset = at()});
    const std::span taken = bytes_.first(count * width);
    bytes_ = bytes_.subspan(count * width);
    return taken;
  }

  std::uint64_t take_count() {
    const std::uint64_t offset = at();
    const std::uint64_t count = load_le32(take(1, 4));
    if (count > kMostIndex)
      throw DataError("the count " + std::to_string(count) + " cannot be", {.offset = offset});
    return count;
  }

 private:
  std::span<const std::byte> bytes_;
  std::uint64_t size_;
};

// One stream of a chunk.
class CbfColumn {
 public:
  explicit CbfColumn(const CbfStream& stream) : stream_(stream) {}

  void read_sequence(Rest& rest) {
    const std::uint64_t num_samples = rest.take_count();
    if (stream_.is_sparse) {
      read_sparse(rest, num_samples);
    } else {
      append(values_, rest.take(num_samples, value_bytes() * stream_.dimension));
    }
    num_samples_ += num_samples;
    sample_offsets_.push_back(static_cast<std::int64_t>(num_samples_));
  }

  Column borrow() const {
    Column column{.values = values_.data(),
                  .sample_offsets = sample_offsets_.data(),
                  .element_bytes = value_bytes(),
                  .sample_elements = stream_.dimension,
                  .type = stream_.is_double ? ElementType::kFloat64 : ElementType::kFloat32};
    if (stream_.is_sparse) {
      column.element_offsets = element_offsets_.data();
      column.indices = indices_.data();
    }
    return bounded(column, num_samples_,
                   {.value_bytes = values_.size(),
                    .sample_offsets = sample_offsets_.size(),
                    .element_offsets = element_offsets_.size(),
                    .indices = indices_.size()});
  }

  std::uint64_t bytes() const noexcept {
    return values_.size() + indices_.size() * 4 +
           (sample_offsets_.size() + element_offsets_.size()) * 8;
  }

 private:
  std::uint64_t value_bytes() const noexcept { return stream_.is_double ? 8 : 4; }

  static void append(ColumnVector<std::byte>& out, std::span<const std::byte> bytes) {
    const std::size_t size = out.size();
    out.resize(size + bytes.size());
    if (!bytes.empty()) std::memcpy(out.data() + size, bytes.data(), bytes.size());
  }

  void read_sparse(Rest& rest, std::uint64_t num_samples) {
    const std::uint64_t count = rest.take_count();
    append(values_, rest.take(count, value_bytes()));
    const std::uint64_t offset = rest.at();
    const std::span<const std::byte> indices = rest.take(count, 4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint32_t index = load_le32(indices.subspan(4 * i));
      if (index >= stream_.dimension)
        throw DataError("an index is " + std::to_string(static_cast<std::int32_t>(index)) +
                            ", of a stream of the dimension " +
                            std::to_string(stream_.dimension),
                        {.offset = offset + 4 * i});
      indices_.push_back(static_cast<std::int32_t>(index));
    }
    std::uint64_t left = count;
    for (std::uint64_t sample = 0; sample < num_samples; ++sample) {
      const std::uint64_t own = rest.take_count();
      if (own > left) throw_counts(rest);
      left -= own;
      element_offsets_.push_back(element_offsets_.back() + static_cast<std::int64_t>(own));
    }
    if (left != 0) throw_counts(rest);
  }

  [[noreturn]] static void throw_counts(const Rest& rest) {
    throw DataError("the counts of the samples are not those of the sequence",
                    {.offset = rest.at()});
  }

  const CbfStream& stream_;
  ColumnVector<std::byte> values_;
  ColumnVector<std::int32_t> indices_;
  std::vector<std::int64_t> sample_offsets_{0};
  std::vector<std::int64_t> element_offsets_{0};
  std::uint64_t num_samples_ = 0;
};

}  // namespace

std::shared_ptr<const Chunk> read_cbf_chunk(std::span<const std::byte> bytes,
                                            std::uint64_t num_sequences,
                                            std::span<const CbfStream> streams) {
  static_assert(std::endian::native == std::endian::little, "values are taken as they lie");
  Rest rest(bytes);
  rest.take(num_sequences, 4);  // which each stream repeats
  struct Owner {
    std::vector<CbfStream> streams;
    std::deque<CbfColumn> columns;
  };
  const auto owner = std::make_shared<Owner>();
  owner->streams.assign(streams.begin(), streams.end());
  const auto chunk = std::make_shared<Chunk>();
  chunk->num_sequences = num_sequences;
  for (const CbfStream& stream : owner->streams) {
    CbfColumn passed(stream);
    CbfColumn& column = stream.is_wanted ? owner->columns.emplace_back(stream) : passed;
    for (std::uint64_t sequence = 0; sequence < num_sequences; ++sequence) {
      try {
        column.read_sequence(rest);
      } catch (const DataError& error) {
        throw error.within({.stream = stream.name, .sequence = sequence});
      }
    }
    if (!stream.is_wanted) continue;
    chunk->columns.push_back(column.borrow());
    chunk->bytes += column.bytes();
  }
  if (!rest.is_empty())
    throw DataError("there are bytes behind the last sequence of the chunk",
                    {.offset = rest.at()});
  chunk->owner = owner;
  return chunk;
}

}  // namespace sweephand
