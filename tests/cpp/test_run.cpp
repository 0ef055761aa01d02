// Memory that is used again.
#include "check.hpp"
#include "run/block_pool.hpp"

#include <array>
#include <cstddef>

namespace sweephand {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void a_block_that_was_given_back_serves_the_next_request() {
  BlockPool pool;
  const BlockPool::Block first = pool.take(kMiB);
  pool.give_back(first);
  const BlockPool::Block second = pool.take(kMiB - 1000);
  CHECK(second.data == first.data);
  CHECK(second.capacity == first.capacity);
  pool.give_back(second);
}

void a_pool_that_is_shrunk_holds_as_much_as_is_used_from_there_on() {
  BlockPool pool;
  const BlockPool::Block large = pool.take(8 * kMiB);
  const BlockPool::Block kept = pool.take(kMiB);
  pool.give_back(large);
  pool.shrink();
  const BlockPool::Block small = pool.take(4 * kMiB);
  CHECK(small.capacity < 5 * kMiB);  // not the large one, which serves such requests
  pool.give_back(small);
  const BlockPool::Block again = pool.take(4 * kMiB);
  CHECK(again.data == small.data);
  pool.give_back(again);
  pool.give_back(kept);
}

void a_large_block_is_not_lost_to_small_ones() {
  BlockPool pool;
  const BlockPool::Block large = pool.take(32 * kMiB);
  pool.give_back(large);
  std::array<BlockPool::Block, 4> small{};
  for (BlockPool::Block& block : small) block = pool.take(kMiB / 8);
  const BlockPool::Block again = pool.take(32 * kMiB);
  CHECK(again.data == large.data);
  pool.give_back(again);
  for (const BlockPool::Block& block : small) pool.give_back(block);
}

void a_pool_frees_what_is_beyond_its_limit() {
  BlockPool pool(kMiB);
  const BlockPool::Block large = pool.take(8 * kMiB);
  pool.give_back(large);  // twice as much as may be free: gone, as ASan would tell
  const BlockPool::Block small = pool.take(kMiB / 2);
  CHECK(small.capacity < kMiB);
  pool.give_back(small);
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::a_block_that_was_given_back_serves_the_next_request();
  sweephand::a_pool_that_is_shrunk_holds_as_much_as_is_used_from_there_on();
  sweephand::a_large_block_is_not_lost_to_small_ones();
  sweephand::a_pool_frees_what_is_beyond_its_limit();
}
