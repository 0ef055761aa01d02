// Memory that is used again, and every way to decode varints.
#include "base/mix.hpp"
#include "check.hpp"
#include "read/block_pool.hpp"
#include "read/column_vector.hpp"
#include "read/varint.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

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

void put_varint(std::uint64_t value, std::vector<std::byte>& bytes) {
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<std::byte>(value | 0x80));
  bytes.push_back(static_cast<std::byte>(value));
}

void check_ways(std::span<const std::byte> bytes, const ColumnVector<std::int64_t>& values) {
  for (const DecodeVarints decode : ways_to_decode_varints()) {
    ColumnVector<std::int64_t> decoded(values.size() + 1, -5);
    const std::byte* const end = decode(bytes.data(), values.size(), decoded.data());
    CHECK(end == bytes.data() + bytes.size());
    CHECK(decoded.back() == -5);
    decoded.pop_back();
    CHECK(decoded == values);
  }
}

// Values of `least` to `most` bits, in every number up to 200.
void check_varints_of(unsigned least, unsigned most) {
  for (std::uint64_t count = 0; count < 200; ++count) {
    std::vector<std::byte> bytes;
    ColumnVector<std::int64_t> values;
    for (std::uint64_t i = 0; i < count; ++i) {
      const std::uint64_t bits = least + mix64(count + 1000 * i) % (most - least + 1);
      const std::uint64_t value = bits == 0 ? 0 : mix64(i) >> (64 - bits);
      put_varint(value, bytes);
      values.push_back(static_cast<std::int64_t>(value));
    }
    const std::size_t size = bytes.size();
    bytes.resize(size + kVarintPadding, std::byte{0xff});  // what is behind has no meaning
    const auto given = std::span(bytes).first(size);
    check_ways(given, values);
    ColumnVector<std::int64_t> appended;
    CHECK(append_varints(given, appended));
    CHECK(appended == values);
  }
}

void every_way_decodes_the_same_varints() {
  check_varints_of(0, 7);
  check_varints_of(0, 14);
  check_varints_of(7, 28);
  check_varints_of(20, 36);
  check_varints_of(0, 64);
  check_varints_of(64, 64);
}

void more_than_64_bits_are_refused_every_way() {
  for (std::size_t before = 0; before < 40; ++before) {
    std::vector<std::byte> bytes(before, std::byte{1});
    bytes.resize(before + 9, std::byte{0xff});
    bytes.push_back(std::byte{2});
    bytes.resize(before + 10 + kVarintPadding);
    for (const DecodeVarints decode : ways_to_decode_varints()) {
      ColumnVector<std::int64_t> decoded(before + 1);
      CHECK(decode(bytes.data(), before + 1, decoded.data()) == nullptr);
    }
  }
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::a_block_that_was_given_back_serves_the_next_request();
  sweephand::a_large_block_is_not_lost_to_small_ones();
  sweephand::a_pool_frees_what_is_beyond_its_limit();
  sweephand::vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others();
  sweephand::every_way_decodes_the_same_varints();
  sweephand::more_than_64_bits_are_refused_every_way();
}
