// The sizes of the sequences of a corpus, in samples, read where they are needed.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace sweephand {

inline constexpr std::uint64_t kMaxSequenceSamples = 0xffffffff;

class Sizes {
 public:
  Sizes() = default;
  Sizes(const Sizes&) = delete;
  Sizes& operator=(const Sizes&) = delete;
  virtual ~Sizes() = default;

  // The size that all sequences share, or 0 when they differ.
  virtual std::uint32_t common() const noexcept { return 0; }

  // For how many sequences there is one; nothing where they are told for any.
  virtual std::optional<std::uint64_t> count() const noexcept { return std::nullopt; }

  // Reading a size is a look into memory; if not, whoever needs one again remembers it.
  virtual bool in_memory() const noexcept { return true; }

  // The sizes of sequences [first, first + out.size()) in storage order.
  virtual void read(std::uint64_t first, std::span<std::uint32_t> out) const = 0;

  // The sizes of any sequences, one for each entry of `sequences`. REQUIRES: equal lengths
  virtual void gather(std::span<const std::uint64_t> sequences,
                      std::span<std::uint32_t> out) const;
};

// Every sequence has the same size; nothing is stored.
class CommonSize final : public Sizes {
 public:
  explicit CommonSize(std::uint32_t size) : size_(size) {}
  std::uint32_t common() const noexcept override { return size_; }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;

 private:
  std::uint32_t size_;
};

// Sizes are differences of offsets that somebody else owns.
class OffsetSizes final : public Sizes {
 public:
  // `offsets` has one entry more than there are sequences; `owner` keeps it alive. It was
  // checked by check_offsets.
  OffsetSizes(std::span<const std::int64_t> offsets, std::shared_ptr<const void> owner)
      : offsets_(offsets), owner_(std::move(owner)) {}
  std::optional<std::uint64_t> count() const noexcept override { return offsets_.size() - 1; }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  void gather(std::span<const std::uint64_t> sequences,
              std::span<std::uint32_t> out) const override;

 private:
  std::span<const std::int64_t> offsets_;
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

 private:
  std::vector<std::uint32_t> sizes_;
};

// What a look at all offsets of one stream tells.
struct OffsetSummary {
  std::uint64_t num_samples = 0;
  std::uint32_t min_size = 0;
  std::uint32_t max_size = 0;
};

// Looks at the offsets of one stream. Throws std::invalid_argument naming the first sequence at
// fault when they do not begin at 0, descend, pass `num_samples`, or make a sequence of 2^32
// samples or more.
OffsetSummary check_offsets(std::span<const std::int64_t> offsets, std::uint64_t num_samples);

}  // namespace sweephand
