// The data's own order, as in the folder of another library.
#pragma once

#include <cstdint>
#include <span>

namespace sweephand {

// Every sweep has each sequence of the corpus once.
class GivenOrder {
 public:
  GivenOrder() = default;
  GivenOrder(const GivenOrder&) = delete;
  GivenOrder& operator=(const GivenOrder&) = delete;
  virtual ~GivenOrder() = default;

  // The sequences at places [first, first + out.size()) of a sweep.
  virtual void fill(std::uint64_t sweep, std::uint64_t first,
                    std::span<std::uint64_t> out) const = 0;

  // The place of `sequence` in a sweep. REQUIRES: the corpus has it
  virtual std::uint64_t place(std::uint64_t sweep, std::uint64_t sequence) const = 0;
};

}  // namespace sweephand
