// The sizes of the sequences of a corpus, in samples, read where they are needed.
#pragma once

#include "index/counts.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kMaxSequenceSamples = 0xffffffff;

// Consecutive sequences.
struct SequenceRun {
  std::uint64_t first;
  std::uint64_t count;
};

class Sizes {
 public:
  Sizes() = default;
  Sizes(const Sizes&) = delete;
  Sizes& operator=(const Sizes&) = delete;
  virtual ~Sizes() = default;

  // The size that all sequences share, or 0 when they differ.
  virtual std::uint32_t common() const noexcept { return 0; }

  // For how many sequences there is one; nothing where they are known for any.
  virtual std::optional<std::uint64_t> count() const noexcept { return std::nullopt; }

  // Reading a size is a memory access; if not, callers should remember the sizes that they need
  // again.
  virtual bool in_memory() const noexcept { return true; }

  // The sizes of sequences [first, first + out.size()) in storage order.
  virtual void read(std::uint64_t first, std::span<std::uint32_t> out) const = 0;

  // The sizes of runs of sequences, one run after the other, by a single call of the user's
  // code. REQUIRES: no run is empty, and `out` has room for all
  virtual void read_runs(std::span<const SequenceRun> runs, std::span<std::uint32_t> out) const;

  // The sizes of any sequences, one for each entry of `sequences`. REQUIRES: equal lengths
  virtual void gather(std::span<const std::uint64_t> sequences,
                      std::span<std::uint32_t> out) const;

  // The samples of sequences [first, end). Linear, unless it is known without reading all.
  virtual std::uint64_t sum(std::uint64_t first, std::uint64_t end) const;

  // The same of chunks, given where each begins.
  virtual Starts sums(const Starts& starts) const;
};

// Every sequence has the same size; nothing is stored.
class CommonSize final : public Sizes {
 public:
  explicit CommonSize(std::uint32_t size) : size_(size) {}
  std::uint32_t common() const noexcept override { return size_; }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  Starts sums(const Starts& starts) const override;

 private:
  std::uint32_t size_;
};

// Sizes as differences of offsets that another object owns. Each is checked when it is read, as
// checking all may take longer than all the reads.
class OffsetSizes final : public Sizes {
 public:
  // The origin of the offsets: a stream; and a file, or none if a user passed them.
  struct Origin {
    std::string stream;
    std::string file;
  };

  // `offsets` has one entry more than there are sequences; `owner` keeps it alive. Reading them
  // throws std::invalid_argument, or DataError for those of a file, naming the first wrong
  // sequence, when it ends before it begins, has no sample, or 2^32 or more.
  OffsetSizes(std::span<const std::int64_t> offsets, Origin origin,
              std::shared_ptr<const void> owner)
      : offsets_(offsets), origin_(std::move(origin)), owner_(std::move(owner)) {}
  std::optional<std::uint64_t> count() const noexcept override { return offsets_.size() - 1; }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  void gather(std::span<const std::uint64_t> sequences,
              std::span<std::uint32_t> out) const override;
  std::uint64_t sum(std::uint64_t first, std::uint64_t end) const override;

 private:
  [[noreturn]] void refuse(std::uint64_t sequence) const;

  std::span<const std::int64_t> offsets_;
  Origin origin_;
  std::shared_ptr<const void> owner_;
};

// One 32-bit size per sequence.
class StoredSizes final : public Sizes {
 public:
  explicit StoredSizes(std::vector<std::uint32_t> sizes) : sizes_(std::move(sizes)) {}
  std::optional<std::uint64_t> count() const noexcept override { return sizes_.size(); }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  void gather(std::span<const std::uint64_t> sequences,
              std::span<std::uint32_t> out) const override;
  std::uint64_t sum(std::uint64_t first, std::uint64_t end) const override;

 private:
  std::vector<std::uint32_t> sizes_;
};

// The sizes of concatenated corpora.
class JoinedSizes final : public Sizes {
 public:
  struct Part {
    std::shared_ptr<const Sizes> sizes;
    std::uint64_t num_sequences;
  };

  explicit JoinedSizes(std::vector<Part> parts);
  std::uint32_t common() const noexcept override { return common_; }
  std::optional<std::uint64_t> count() const noexcept override { return firsts_.back(); }
  bool in_memory() const noexcept override;
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  void read_runs(std::span<const SequenceRun> runs,
                 std::span<std::uint32_t> out) const override;
  std::uint64_t sum(std::uint64_t first, std::uint64_t end) const override;

 private:
  std::size_t part_of(std::uint64_t sequence) const noexcept;

  std::vector<Part> parts_;
  std::vector<std::uint64_t> firsts_;  // sequence of every part, and the end
  std::uint32_t common_ = 0;
};

// Looks at the offsets of one stream. Throws std::invalid_argument naming the first sequence at
// fault when they do not begin at 0, descend, do not end at `num_samples`, or make a sequence
// of 2^32 samples or more.
void check_offsets(std::span<const std::int64_t> offsets, std::uint64_t num_samples);

// The same, looking at the first and the last one alone.
void check_ends(std::span<const std::int64_t> offsets, std::uint64_t num_samples);

// Whether a sequence has no sample. REQUIRES: check_offsets
bool is_any_empty(std::span<const std::int64_t> offsets) noexcept;

// The size that all sequences share, by their offsets; 0 if they differ, which is mostly seen
// at once. REQUIRES: check_ends
std::uint32_t common_size(std::span<const std::int64_t> offsets) noexcept;

}  // namespace sweephand
