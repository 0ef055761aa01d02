// Tables of chunks, against sums one by one.
#include "check.hpp"
#include "index/chunk_table.hpp"

#include <cstdint>
#include <limits>
#include <stdexcept>
#include <vector>

using namespace sweephand;

namespace {

using Counts = std::vector<std::uint64_t>;

void check_table(const Counts& sequences, const Counts& samples) {
  const ChunkTable table(sequences, samples);
  std::uint64_t first = 0;
  for (std::uint64_t chunk = 0; chunk < samples.size(); ++chunk) {
    CHECK(table.samples_in(chunk) == samples[chunk]);
    CHECK(table.first_sample(chunk) == first);
    first += samples[chunk];
  }
  CHECK(table.first_sample(samples.size()) == first);
  CHECK(table.num_samples() == first);
}

// Around the size of a group, with counts that share a number, fit four bytes, and do not.
void samples_are_those_that_were_given() {
  for (const std::size_t count : {1U, 2U, 31U, 32U, 33U, 63U, 64U, 65U, 1000U}) {
    for (const std::uint64_t most :
         {std::uint64_t{1}, std::uint64_t{1000}, std::uint64_t{1} << 40U}) {
      Counts samples(count, most);
      check_table(Counts(count, 1), samples);
      samples.back() = 7 * most;
      check_table(Counts(count, 1), samples);
      for (std::size_t i = 0; i < count; ++i) samples[i] = 1 + i * 2'654'435'761U % most;
      check_table(Counts(count, 1), samples);
    }
  }
}

void empty_chunks_have_no_samples() {
  check_table({0, 1, 0, 2, 0}, {0, 5, 0, 6, 0});
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{0, 0}, Counts{0, 0}));
}

void too_many_samples_are_refused() {
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  check_table({1, 1}, {kMost - 1, 1});
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{1, 1}, Counts{kMost, 1}));
}

}  // namespace

int main() {
  samples_are_those_that_were_given();
  empty_chunks_have_no_samples();
  too_many_samples_are_refused();
}
