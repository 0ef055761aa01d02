// Which samples of each sequence a loss is taken on, as runs.
#pragma once

#include <cstdint>
#include <vector>

namespace sweephand {

class LossMasks {
 public:
  // Sequence s has the runs [bounds[j], bounds[j + 1]) for j = offsets[s], offsets[s] + 2, ...
  // below offsets[s + 1], ascending and apart. Throws std::invalid_argument where that cannot
  // be.
  LossMasks(std::vector<std::int64_t> offsets, std::vector<std::uint32_t> bounds);

  std::uint64_t num_sequences() const noexcept { return offsets_.size() - 1; }

  // Samples [begin, end) of a sequence that a loss is taken on. Linear in its runs. REQUIRES:
  // sequence < num_sequences()
  std::uint64_t count(std::uint64_t sequence, std::uint64_t begin,
                      std::uint64_t end) const noexcept;

 private:
  std::vector<std::int64_t> offsets_;
  std::vector<std::uint32_t> bounds_;
};

}  // namespace sweephand
