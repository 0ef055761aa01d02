#include "read/packed_chunk.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

constexpr std::uint64_t kMagic = 0x31'6b'6e'68'63'70'68'73;  // "shpchnk1"
constexpr std::uint64_t kAlign = 64;
constexpr std::uint64_t kMost = std::uint64_t{1} << 48;  // of anything that is counted

struct Head {
  std::uint64_t magic = kMagic;
  std::uint64_t num_columns = 0;
  std::uint64_t num_sequences = 0;
  std::uint64_t bytes = 0;
};

struct ColumnHead {
  std::uint64_t element_bytes = 0;
  std::uint64_t sample_elements = 0;
  std::uint64_t type = 0;
  std::uint64_t num_sequences = 0;
  std::uint64_t num_samples = 0;
  std::uint64_t num_elements = 0;
  std::uint64_t has_values = 0;
  std::uint64_t has_sample_offsets = 0;
  std::uint64_t has_element_offsets = 0;
  std::uint64_t has_indices = 0;
};

ColumnHead head_of(const Column& column) {
  return {.element_bytes = column.element_bytes,
          .sample_elements = column.sample_elements,
          .type = static_cast<std::uint64_t>(column.type),
          .num_sequences = column.num_sequences,
          .num_samples = column.num_samples,
          .num_elements = column.num_elements,
          .has_values = column.values != nullptr ? 1U : 0U,
          .has_sample_offsets = column.sample_offsets != nullptr ? 1U : 0U,
          .has_element_offsets = column.element_offsets != nullptr ? 1U : 0U,
          .has_indices = column.indices != nullptr ? 1U : 0U};
}

std::uint64_t product(std::uint64_t a, std::uint64_t b) {
  if (b != 0 && a > kMost / b) throw std::invalid_argument("a packed chunk is too large");
  return a * b;
}

// Bytes of values, sample offsets, element offsets and indices.
std::array<std::uint64_t, 4> array_bytes(const ColumnHead& head) {
  const std::uint64_t elements = head.has_element_offsets != 0
                                     ? head.num_elements
                                     : product(head.num_samples, head.sample_elements);
  const auto bytes = [](std::uint64_t has, std::uint64_t count, std::uint64_t size) {
    return has != 0 ? product(count, size) : 0;
  };
  return {bytes(head.has_values, elements, head.element_bytes),
          bytes(head.has_sample_offsets, head.num_sequences + 1, sizeof(std::int64_t)),
          bytes(head.has_element_offsets, head.num_samples + 1, sizeof(std::int64_t)),
          bytes(head.has_indices, head.num_elements, sizeof(std::int32_t))};
}

std::uint64_t aligned(std::uint64_t place) { return (place + kAlign - 1) / kAlign * kAlign; }

std::uint64_t heads_bytes(std::uint64_t num_columns) {
  return sizeof(Head) + product(num_columns, sizeof(ColumnHead));
}

template <class T>
void write(std::span<std::byte> out, std::uint64_t place, const T& value) {
  std::memcpy(out.subspan(place, sizeof(T)).data(), &value, sizeof(T));
}

template <class T>
T read(std::span<const std::byte> packed, std::uint64_t place) {
  if (place > packed.size() || sizeof(T) > packed.size() - place)
    throw std::invalid_argument("a packed chunk ends before its heads");
  T value;
  std::memcpy(&value, packed.data() + place, sizeof(T));
  return value;
}

// Hands out parts of the memory in order.
class Places {
 public:
  Places(std::uint64_t begin, std::uint64_t size) : place_(begin), size_(size) {}

  std::uint64_t take(std::uint64_t bytes) {
    const std::uint64_t begin = aligned(place_);
    if (begin > size_ || bytes > size_ - begin)
      throw std::invalid_argument("a packed chunk ends before its arrays");
    place_ = begin + bytes;
    return begin;
  }

 private:
  std::uint64_t place_;
  std::uint64_t size_;
};

Column unpack_column(std::span<const std::byte> packed, const ColumnHead& head,
                     Places& places) {
  const auto sizes = array_bytes(head);
  const auto take = [&](std::size_t i, std::uint64_t has) {
    const std::uint64_t place = places.take(sizes.at(i));
    return has != 0 ? packed.data() + place : nullptr;
  };
  // The memory is mapped, or made by NumPy, and arrays begin at multiples of 64.
  Column column;
  column.values = take(0, head.has_values);
  column.sample_offsets =
      reinterpret_cast<const std::int64_t*>(take(1, head.has_sample_offsets));  // NOLINT
  column.element_offsets =
      reinterpret_cast<const std::int64_t*>(take(2, head.has_element_offsets));       // NOLINT
  column.indices = reinterpret_cast<const std::int32_t*>(take(3, head.has_indices));  // NOLINT
  column.element_bytes = head.element_bytes;
  column.sample_elements = head.sample_elements;
  column.type = static_cast<ElementType>(head.type);
  column.num_sequences = head.num_sequences;
  column.num_samples = head.num_samples;
  column.num_elements = head.num_elements;
  return column;
}

}  // namespace

std::uint64_t packed_bytes(const Chunk& chunk) {
  if (!chunk.skipped.empty()) return 0;
  std::uint64_t place = heads_bytes(chunk.columns.size());
  for (const Column& column : chunk.columns) {
    if (column.extents != nullptr) return 0;
    for (const std::uint64_t bytes : array_bytes(head_of(column)))
      place = aligned(place) + bytes;
  }
  return place;
}

void pack(const Chunk& chunk, std::span<std::byte> out) {
  write(out, 0,
        Head{.num_columns = chunk.columns.size(),
             .num_sequences = chunk.num_sequences,
             .bytes = chunk.bytes});
  Places places(heads_bytes(chunk.columns.size()), out.size());
  std::uint64_t at = sizeof(Head);
  for (const Column& column : chunk.columns) {
    const ColumnHead head = head_of(column);
    write(out, at, head);
    at += sizeof(ColumnHead);
    const auto sizes = array_bytes(head);
    const std::array<const void*, 4> arrays = {column.values, column.sample_offsets,
                                               column.element_offsets, column.indices};
    for (std::size_t i = 0; i < arrays.size(); ++i) {
      const std::uint64_t place = places.take(sizes.at(i));
      if (sizes.at(i) != 0) std::memcpy(out.data() + place, arrays.at(i), sizes.at(i));
    }
  }
}

std::shared_ptr<Chunk> unpack(std::span<const std::byte> packed,
                              std::shared_ptr<const void> owner) {
  const auto head = read<Head>(packed, 0);
  if (head.magic != kMagic || head.num_columns > packed.size())
    throw std::invalid_argument("this is no packed chunk");
  auto chunk = std::make_shared<Chunk>();
  chunk->num_sequences = head.num_sequences;
  chunk->bytes = head.bytes;
  chunk->owner = std::move(owner);
  Places places(heads_bytes(head.num_columns), packed.size());
  for (std::uint64_t i = 0; i < head.num_columns; ++i) {
    const auto column = read<ColumnHead>(packed, sizeof(Head) + i * sizeof(ColumnHead));
    if (column.type > static_cast<std::uint64_t>(ElementType::kFloat64))
      throw std::invalid_argument("a packed chunk has elements of an unknown type");
    chunk->columns.push_back(unpack_column(packed, column, places));
  }
  return chunk;
}

}  // namespace sweephand
