#include "index/sizes.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <utility>

namespace sweephand {

void Sizes::gather(std::span<const std::uint64_t> sequences,
                   std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) read(sequences[i], out.subspan(i, 1));
}

void Sizes::read_runs(std::span<const SequenceRun> runs, std::span<std::uint32_t> out) const {
  for (const SequenceRun& run : runs) {
    read(run.first, out.first(run.count));
    out = out.subspan(run.count);
  }
}

std::uint64_t Sizes::sum(std::uint64_t first, std::uint64_t end) const {
  std::array<std::uint32_t, 1024> sizes{};
  std::uint64_t sum = 0;
  for (; first < end; first += sizes.size()) {
    const std::span part =
        std::span(sizes).first(std::min<std::uint64_t>(sizes.size(), end - first));
    read(first, part);
    sum = std::accumulate(part.begin(), part.end(), sum);
  }
  return sum;
}

Starts Sizes::sums(const Starts& starts) const {
  std::vector<std::uint64_t> sums;
  sums.reserve(starts.num_counts());
  std::uint64_t begin = 0;
  for (std::uint64_t i = 0; i < starts.num_counts(); ++i) {
    const std::uint64_t end = starts[i + 1];
    sums.push_back(sum(std::exchange(begin, end), end));
  }
  return {sums, "samples"};
}

void CommonSize::read(std::uint64_t /*first*/, std::span<std::uint32_t> out) const {
  std::fill(out.begin(), out.end(), size_);
}

Starts CommonSize::sums(const Starts& starts) const { return {starts, size_, "samples"}; }

namespace {

constexpr std::uint64_t kRunsAhead = 16;

// A descent wraps to a huge size.
constexpr std::uint64_t size_between(std::int64_t begin, std::int64_t end) noexcept {
  return static_cast<std::uint64_t>(end) - static_cast<std::uint64_t>(begin);
}

// 0 for a size in [1, 2^32) and nothing else.
constexpr std::uint64_t fault_in(std::uint64_t size) noexcept {
  return (size | (size - 1)) >> 32;
}

std::string told_offsets(std::uint64_t sequence, std::int64_t begin, std::int64_t end) {
  const char* reason =
      end < begin ? "they must not descend" : "a sequence may have at most 2^32 - 1 samples";
  return "offsets of sequence " + std::to_string(sequence) + " are [" + std::to_string(begin) +
         ", " + std::to_string(end) + "): " + reason;
}

}  // namespace

void OffsetSizes::refuse(std::uint64_t sequence) const {
  const std::int64_t begin = offsets_[sequence];
  const std::int64_t end = offsets_[sequence + 1];
  const std::string stream = "stream '" + origin_.stream + "'";
  if (begin == end) {
    throw std::invalid_argument("sequence " + std::to_string(sequence) + " has no sample in " +
                                stream +
                                ", which defines its size; remove it, or name another stream "
                                "by defines_mb_size=True");
  }
  const std::string problem = told_offsets(sequence, begin, end);
  if (origin_.file.empty()) throw std::invalid_argument(stream + ": " + problem);
  throw DataError(problem, {.file = origin_.file, .stream = origin_.stream});
}

void OffsetSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  const std::int64_t* offset = offsets_.data() + first;
  std::uint64_t fault = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::uint64_t size = size_between(offset[i], offset[i + 1]);
    fault |= fault_in(size);
    out[i] = static_cast<std::uint32_t>(size);
  }
  if (fault == 0) return;
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (fault_in(size_between(offset[i], offset[i + 1])) != 0) refuse(first + i);
  }
}

void OffsetSizes::gather(std::span<const std::uint64_t> sequences,
                         std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) {
    const std::int64_t* offset = offsets_.data() + sequences[i];
    const std::uint64_t size = size_between(offset[0], offset[1]);
    if (fault_in(size) != 0) refuse(sequences[i]);
    out[i] = static_cast<std::uint32_t>(size);
  }
}

// An impossible sum has its cause among the sizes. Runs are mostly asked for in order, and are
// equally long: the ends of the next runs are prefetched.
std::uint64_t OffsetSizes::sum(std::uint64_t first, std::uint64_t end) const {
  const std::uint64_t sum = size_between(offsets_[first], offsets_[end]);
  const std::uint64_t count = end - first;
  const std::uint64_t soon = end + kRunsAhead * count;
  if (soon < offsets_.size()) __builtin_prefetch(offsets_.data() + soon);
  if (count <= sum && sum / kMaxSequenceSamples <= count) return sum;
  return Sizes::sum(first, end);
}

void StoredSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  std::copy_n(sizes_.begin() + static_cast<std::ptrdiff_t>(first), out.size(), out.begin());
}

void StoredSizes::gather(std::span<const std::uint64_t> sequences,
                         std::span<std::uint32_t> out) const {
  for (std::size_t i = 0; i < sequences.size(); ++i) out[i] = sizes_[sequences[i]];
}

std::uint64_t StoredSizes::sum(std::uint64_t first, std::uint64_t end) const {
  const std::span sizes = std::span(sizes_).subspan(first, end - first);
  return std::accumulate(sizes.begin(), sizes.end(), std::uint64_t{0});
}

namespace {

void check_begin(std::span<const std::int64_t> offsets) {
  if (offsets.empty()) {
    throw std::invalid_argument(
        "offsets need one entry more than there are sequences, got none");
  }
  if (offsets[0] != 0) {
    throw std::invalid_argument("offsets must begin at 0, got " + std::to_string(offsets[0]));
  }
}

void check_end(std::span<const std::int64_t> offsets, std::uint64_t num_samples) {
  if (std::cmp_equal(offsets.back(), num_samples)) return;
  throw std::invalid_argument("offsets end at " + std::to_string(offsets.back()) +
                              ", but there are " + std::to_string(num_samples) + " samples");
}

}  // namespace

void check_ends(std::span<const std::int64_t> offsets, std::uint64_t num_samples) {
  check_begin(offsets);
  check_end(offsets, num_samples);
}

void check_offsets(std::span<const std::int64_t> offsets, std::uint64_t num_samples) {
  check_begin(offsets);
  std::uint64_t bits = 0;  // of all sizes; a descent wraps to a huge one
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    bits |= size_between(offsets[i], offsets[i + 1]);
  }
  for (std::size_t i = 0; bits > kMaxSequenceSamples; ++i) {
    if (size_between(offsets[i], offsets[i + 1]) <= kMaxSequenceSamples) continue;
    throw std::invalid_argument(told_offsets(i, offsets[i], offsets[i + 1]));
  }
  check_end(offsets, num_samples);
}

bool is_any_empty(std::span<const std::int64_t> offsets) noexcept {
  std::uint64_t bits = 0;  // of all sizes less 1; that of an empty one wraps to a huge one
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    bits |= size_between(offsets[i], offsets[i + 1]) - 1;
  }
  return bits > kMaxSequenceSamples;
}

std::uint32_t common_size(std::span<const std::int64_t> offsets) noexcept {
  const std::size_t count = offsets.size() - 1;
  const auto total = static_cast<std::uint64_t>(offsets.back());
  if (count == 0 || total % count != 0 || total / count > kMaxSequenceSamples) return 0;
  const std::uint64_t size = total / count;
  constexpr std::size_t kRun = 4096;
  for (std::size_t first = 0; first < count; first += kRun) {
    std::uint64_t differs = 0;
    for (std::size_t i = first; i < std::min(count, first + kRun); ++i) {
      differs |= size_between(offsets[i], offsets[i + 1]) ^ size;
    }
    if (differs != 0) return 0;
  }
  return static_cast<std::uint32_t>(size);
}

JoinedSizes::JoinedSizes(std::vector<Part> parts) : parts_(std::move(parts)), firsts_{0} {
  for (const Part& part : parts_) firsts_.push_back(firsts_.back() + part.num_sequences);
  const auto common_of = [](const Part& part) { return part.sizes->common(); };
  const bool is_common = std::ranges::adjacent_find(parts_, std::ranges::not_equal_to(),
                                                    common_of) == parts_.end();
  if (is_common && !parts_.empty()) common_ = common_of(parts_[0]);
}

bool JoinedSizes::in_memory() const noexcept {
  return std::ranges::all_of(parts_, [](const Part& part) { return part.sizes->in_memory(); });
}

std::size_t JoinedSizes::part_of(std::uint64_t sequence) const noexcept {
  const auto next = std::ranges::upper_bound(firsts_, sequence);
  return static_cast<std::size_t>(next - firsts_.begin()) - 1;
}

// Runs that follow one another in a part are asked for together.
void JoinedSizes::read_runs(std::span<const SequenceRun> runs,
                            std::span<std::uint32_t> out) const {
  std::vector<SequenceRun> together;
  while (!runs.empty()) {
    const std::size_t part = part_of(runs[0].first);
    std::uint64_t count = 0;
    together.clear();
    for (const SequenceRun& run : runs) {
      const bool is_inside =
          run.first >= firsts_[part] && run.first + run.count <= firsts_[part + 1];
      if (!is_inside) break;
      together.push_back({.first = run.first - firsts_[part], .count = run.count});
      count += run.count;
    }
    if (together.empty()) {  // the run crosses a border
      count = runs[0].count;
      read(runs[0].first, out.first(count));
    } else {
      parts_[part].sizes->read_runs(together, out.first(count));
    }
    runs = runs.subspan(std::max<std::size_t>(1, together.size()));
    out = out.subspan(count);
  }
}

void JoinedSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  std::size_t part = part_of(first);
  while (!out.empty()) {
    const std::uint64_t count = std::min<std::uint64_t>(out.size(), firsts_[part + 1] - first);
    parts_[part].sizes->read(first - firsts_[part], out.first(count));
    out = out.subspan(count);
    first = firsts_[++part];
  }
}

std::uint64_t JoinedSizes::sum(std::uint64_t first, std::uint64_t end) const {
  std::uint64_t sum = 0;
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const std::uint64_t begin = std::max(first, firsts_[part]);
    const std::uint64_t stop = std::min(end, firsts_[part + 1]);
    if (begin < stop)
      sum += parts_[part].sizes->sum(begin - firsts_[part], stop - firsts_[part]);
  }
  return sum;
}

}  // namespace sweephand
