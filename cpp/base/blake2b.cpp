#include "base/blake2b.hpp"

#include "base/little_endian.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace sweephand {
namespace {

using Words = std::array<std::uint64_t, 16>;

constexpr std::array<std::uint64_t, 8> kStart = {
    0x6a09e667f3bcc908, 0xbb67ae8584caa73b, 0x3c6ef372fe94f82b, 0xa54ff53a5f1d36f1,
    0x510e527fade682d1, 0x9b05688c2b3e6c1f, 0x1f83d9abfb41bd6b, 0x5be0cd19137e2179};

constexpr std::array<std::array<std::uint8_t, 16>, 10> kOrder = {{
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15},
    {14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3},
    {11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4},
    {7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8},
    {9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13},
    {2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9},
    {12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11},
    {13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10},
    {6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5},
    {10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0},
}};

// Inlined, so that all words stay in registers.
template <std::size_t A, std::size_t B, std::size_t C, std::size_t D>
[[gnu::always_inline]] inline void mix(Words& v, std::uint64_t x, std::uint64_t y) noexcept {
  v[A] += v[B] + x;
  v[D] = std::rotr(v[D] ^ v[A], 32);
  v[C] += v[D];
  v[B] = std::rotr(v[B] ^ v[C], 24);
  v[A] += v[B] + y;
  v[D] = std::rotr(v[D] ^ v[A], 16);
  v[C] += v[D];
  v[B] = std::rotr(v[B] ^ v[C], 63);
}

template <std::size_t Round>
[[gnu::always_inline]] inline void mix_all(Words& v, const Words& m) noexcept {
  constexpr const auto& kWords = kOrder[Round % kOrder.size()];
  mix<0, 4, 8, 12>(v, m[kWords[0]], m[kWords[1]]);
  mix<1, 5, 9, 13>(v, m[kWords[2]], m[kWords[3]]);
  mix<2, 6, 10, 14>(v, m[kWords[4]], m[kWords[5]]);
  mix<3, 7, 11, 15>(v, m[kWords[6]], m[kWords[7]]);
  mix<0, 5, 10, 15>(v, m[kWords[8]], m[kWords[9]]);
  mix<1, 6, 11, 12>(v, m[kWords[10]], m[kWords[11]]);
  mix<2, 7, 8, 13>(v, m[kWords[12]], m[kWords[13]]);
  mix<3, 4, 9, 14>(v, m[kWords[14]], m[kWords[15]]);
}

template <std::size_t... Round>
[[gnu::always_inline]] inline void mix_rounds(Words& v, const Words& m,
                                              std::index_sequence<Round...> /*all*/) noexcept {
  (mix_all<Round>(v, m), ...);
}

}  // namespace

Blake2b::Blake2b(std::size_t digest_bytes) noexcept : state_(kStart) {
  state_[0] ^= 0x01010000 ^ digest_bytes;
}

void Blake2b::compress(Block block, bool is_last) noexcept {
  constexpr std::size_t kRounds = 12;
  Words m;
  for (std::size_t i = 0; i < m.size(); ++i) m[i] = load_le64(block.subspan(8 * i, 8));
  Words v;
  std::ranges::copy(state_, v.begin());
  std::ranges::copy(kStart, v.begin() + 8);
  v[12] ^= num_bytes_;
  if (is_last) v[14] = ~v[14];
  mix_rounds(v, m, std::make_index_sequence<kRounds>());
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i] ^= v[i] ^ v[i + 8];
}

// The last block is marked as the last, so a full tail waits for more.
void Blake2b::update(std::span<const std::byte> bytes) noexcept {
  while (!bytes.empty()) {
    if (filled_ == kBlockBytes) {
      num_bytes_ += kBlockBytes;
      compress(tail_, false);
      filled_ = 0;
    }
    while (filled_ == 0 && bytes.size() > kBlockBytes) {
      num_bytes_ += kBlockBytes;
      compress(bytes.first<kBlockBytes>(), false);
      bytes = bytes.subspan(kBlockBytes);
    }
    const std::size_t taken = std::min(bytes.size(), kBlockBytes - filled_);
    std::memcpy(tail_.data() + filled_, bytes.data(), taken);
    filled_ += taken;
    bytes = bytes.subspan(taken);
  }
}

void Blake2b::update_le64(std::uint64_t word) noexcept {
  std::array<std::byte, 8> bytes;
  for (std::byte& byte : bytes) {
    byte = static_cast<std::byte>(word);
    word >>= 8;
  }
  update(bytes);
}

std::uint64_t Blake2b::finish() noexcept {
  std::fill(tail_.begin() + static_cast<std::ptrdiff_t>(filled_), tail_.end(), std::byte{0});
  num_bytes_ += filled_;
  compress(tail_, true);
  return state_[0];
}

}  // namespace sweephand
