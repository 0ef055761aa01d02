// Tables of chunks, against sums one by one.
#include "check.hpp"
#include "index/chunk_table.hpp"
#include "index/counts.hpp"

#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <stdexcept>
#include <utility>
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

// Where all but the last are equal, where they are not, and around empty ones.
void starts_are_sums_and_find_their_own() {
  for (const Counts& counts : {Counts{3}, Counts{3, 3, 3}, Counts{3, 3, 1}, Counts{3, 3, 9},
                               Counts{0, 4, 0, 0, 2, 0}, Counts{5, 1, 2}, Counts{0, 1}}) {
    const Starts starts(counts, "things");
    Counts begins;
    std::uint64_t sum = 0;
    for (std::uint64_t i = 0; i < counts.size(); ++i) {
      CHECK(starts.bounds(i) == std::pair(sum, sum + counts[i]));
      for (std::uint64_t value = sum; value < sum + counts[i]; ++value)
        CHECK(starts.find(std::span(&value, 1)) == Counts{i});
      begins.push_back(sum);
      sum += counts[i];
    }
    CHECK(starts.total() == sum && starts.counts() == counts);
    Counts numbers(counts.size());
    std::iota(numbers.begin(), numbers.end(), std::uint64_t{0});
    CHECK(starts.take(numbers) == begins);
    begins.push_back(sum);
    const std::vector<std::int64_t> offsets = starts.offsets();
    CHECK(std::equal(offsets.begin(), offsets.end(), begins.begin(), begins.end()));
    const std::uint64_t after = counts.size();
    CHECK_THROWS(std::out_of_range, starts.bounds(after));
    CHECK_THROWS(std::out_of_range, starts.take(Counts{after + 1}));
    CHECK_THROWS(std::out_of_range, starts.find(Counts{sum}));
  }
}

void even_chunks_are_those_that_are_listed() {
  for (std::uint64_t total = 0; total < 20; ++total) {
    for (std::uint64_t each = 1; each < 22; ++each) {
      Counts counts(total / each, each);
      if (total % each != 0) counts.push_back(total % each);
      CHECK(Starts::even(total, each, "things") == Starts(counts, "things"));
    }
  }
  CHECK(!(Starts(Counts{1, 2, 3}, "things") == Starts(Counts{2, 1, 3}, "things")));
  constexpr std::uint64_t kMost = std::numeric_limits<std::int64_t>::max();
  CHECK(Starts::even(kMost, 1, "things").num_counts() == kMost);
  CHECK_THROWS(std::invalid_argument, Starts::even(kMost + 1, 1, "things"));
}

// By a rule or one by one: the same counts, and the same refusals.
void multiples_are_those_of_each_count() {
  for (const Counts& counts : {Counts{3, 3, 1}, Counts{0, 4, 2}, Counts(70, 2), Counts{7}}) {
    for (const std::uint64_t times :
         {std::uint64_t{1}, std::uint64_t{5}, std::uint64_t{1} << 40U}) {
      Counts wanted = counts;
      for (std::uint64_t& count : wanted) count *= times;
      CHECK(Starts(Starts(counts, "things"), times, "things") == Starts(wanted, "things"));
    }
    CHECK_THROWS(std::invalid_argument,
                 Starts(Starts(counts, "things"), std::uint64_t{1} << 62U, "things"));
  }
}

// All chunks are looked at, or those that a rule leaves.
void chunks_with_less_samples_than_sequences_are_refused() {
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{2, 2, 2}, Counts{1, 1, 1}));
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{2, 2, 2}, Counts{2, 2, 1}));
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{2, 2, 2}, Counts{2, 1, 2}));
  CHECK_THROWS(std::invalid_argument, ChunkTable(Counts{2, 2}, Counts{2}));
  check_table({2, 2, 1}, {4, 4, 1});
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
  starts_are_sums_and_find_their_own();
  even_chunks_are_those_that_are_listed();
  multiples_are_those_of_each_count();
  chunks_with_less_samples_than_sequences_are_refused();
  empty_chunks_have_no_samples();
  too_many_samples_are_refused();
}
