// Vectors for columns.
#include "base/mix.hpp"
#include "check.hpp"
#include "read/column_vector.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>

namespace sweephand {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others() {
  const auto work = [](std::uint64_t seed) {
    ColumnVector<std::int64_t> kept;
    for (std::uint64_t round = 0; round < 50; ++round) {
      ColumnVector<std::int64_t> dropped(mix64(seed + round) % (kMiB / 4));
      std::ranges::fill(dropped, -1);
      kept.push_back(static_cast<std::int64_t>(round));
      kept.resize(kept.size() + 5000, 7);
    }
    CHECK(std::ranges::count(kept, 7) >= 250'000);
    CHECK(std::ranges::count(kept, -1) == 0);
  };
  std::array<std::thread, 4> threads;
  for (std::size_t i = 0; i < threads.size(); ++i) threads[i] = std::thread(work, 1000 * i);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others();
}
