#include "index/sizes.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {

void Sizes::gather(std::span<const std::uint64_t> sequences,
                   std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) read(sequences[i], out.subspan(i, 1));
}

void CommonSize::read(std::uint64_t /*first*/, std::span<std::uint32_t> out) const {
  std::fill(out.begin(), out.end(), size_);
}

void OffsetSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  const std::int64_t* offset = offsets_.data() + first;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = static_cast<std::uint32_t>(offset[i + 1] - offset[i]);
  }
}

void OffsetSizes::gather(std::span<const std::uint64_t> sequences,
                         std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t* offset = offsets_.data() + sequences[i];
    out[i] = static_cast<std::uint32_t>(offset[1] - offset[0]);
  }
}

void StoredSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  std::copy_n(sizes_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
}

void StoredSizes::gather(std::span<const std::uint64_t> sequences,
                         std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) out[i] = sizes_[sequences[i]];
}

namespace {

[[noreturn]] void refuse(std::size_t sequence, std::int64_t begin, std::int64_t end,
                         const std::string& reason) {
  throw std::invalid_argument("offsets of sequence " + std::to_string(sequence) + " are [" +
                              std::to_string(begin) + ", " + std::to_string(end) +
                              "): " + reason);
}

}  // namespace

OffsetSummary check_offsets(std::span<const std::int64_t> offsets, std::uint64_t num_samples) {
  if (offsets.empty()) {
    throw std::invalid_argument(
        "offsets need one entry more than there are sequences, got none");
  }
  if (offsets[0] != 0) {
    throw std::invalid_argument("offsets must begin at 0, got " + std::to_string(offsets[0]));
  }
  const std::size_t count = offsets.size() - 1;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t most = 0;
  for (std::size_t i = 0; i < count; ++i) {
    // A descent wraps to a huge size, so one comparison after the loop finds it.
    const auto size =
        static_cast<std::uint64_t>(offsets[i + 1]) - static_cast<std::uint64_t>(offsets[i]);
    least = std::min(least, size);
    most = std::max(most, size);
  }
  if (most > kMaxSequenceSamples) {
    for (std::size_t i = 0; i < count; ++i) {
      if (offsets[i + 1] < offsets[i])
        refuse(i, offsets[i], offsets[i + 1], "they must not descend");
      if (std::cmp_greater(offsets[i + 1] - offsets[i], kMaxSequenceSamples)) {
        refuse(i, offsets[i], offsets[i + 1], "a sequence may have at most 2^32 - 1 samples");
      }
    }
  }
  if (std::cmp_not_equal(offsets[count], num_samples)) {
    throw std::invalid_argument("offsets end at " + std::to_string(offsets[count]) +
                                ", but there are " + std::to_string(num_samples) + " samples");
  }
  if (count == 0) return {};
  return {.num_samples = num_samples,
          .min_size = static_cast<std::uint32_t>(least),
          .max_size = static_cast<std::uint32_t>(most)};
}

}  // namespace sweephand
