#include "base/digest.hpp"

#include "base/little_endian.hpp"
#include "base/mix.hpp"

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

constexpr std::size_t kDigestBytes = 8;

void check(std::span<const std::int64_t> offsets, std::size_t num_sequences,
           std::uint64_t num_entries) {
  bool fits = offsets.size() == num_sequences + 1 && offsets.front() >= 0 &&
              std::cmp_less_equal(offsets.back(), num_entries);
  for (std::size_t i = 0; fits && i < num_sequences; ++i) fits = offsets[i] <= offsets[i + 1];
  if (!fits) throw std::invalid_argument("offsets must ascend within what they are of");
}

// The bytes between two offsets.
std::span<const std::byte> part(std::span<const std::byte> bytes,
                                std::span<const std::int64_t> offsets, std::size_t i,
                                std::uint64_t entry_bytes) {
  const std::uint64_t begin = static_cast<std::uint64_t>(offsets[i]) * entry_bytes;
  return bytes.subspan(begin, static_cast<std::uint64_t>(offsets[i + 1]) * entry_bytes - begin);
}

void add(Blake2b& digest, std::span<const std::byte> bytes) {
  digest.update_le64(bytes.size());
  digest.update(bytes);
}

void add(Blake2b& digest, const std::string& text) {
  add(digest, std::as_bytes(std::span(text)));
}

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

constexpr std::size_t kStripeBytes = 32;

using Lanes = std::array<std::uint64_t, 4>;

void absorb(Lanes& lanes, std::span<const std::byte> stripe) noexcept {
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    const std::uint64_t word = load_le64(stripe.subspan(8 * i));
    lanes[i] = std::rotl(lanes[i] + word * 0x9e3779b97f4a7c15, 31) * 0xbf58476d1ce4e5b9;
  }
}

void append_hex(std::string& text, std::uint64_t word) {
  for (unsigned digit = 16; digit-- > 0;) {
    text += "0123456789abcdef"[(word >> (4 * digit)) & 15];
  }
}

}  // namespace

std::vector<std::uint64_t> name_digests(std::span<const std::uint8_t> bytes,
                                        std::span<const std::int64_t> offsets) {
  std::vector<std::uint64_t> digests;
  if (offsets.empty()) return digests;
  digests.reserve(offsets.size() - 1);
  auto begin = static_cast<std::uint64_t>(offsets.front());
  for (const std::int64_t offset : offsets.subspan(1)) {
    const auto end = static_cast<std::uint64_t>(offset);
    if (end < begin || end > bytes.size())
      throw std::invalid_argument("the offsets of names must ascend within their bytes");
    digests.push_back(name_digest(bytes.subspan(begin, end - begin)));
    begin = end;
  }
  return digests;
}

std::vector<std::uint64_t> numbered_digests(std::span<const std::uint8_t> prefix,
                                            std::uint64_t count) {
  constexpr std::size_t kMostDigits = 20;
  const std::uint64_t begin = name_digest(prefix);
  std::vector<std::uint64_t> digests(count);
  std::array<char, kMostDigits> digits{};
  for (std::uint64_t number = 0; number < count; ++number) {
    const char* const end =
        std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    std::uint64_t digest = begin;
    for (const char* digit = digits.data(); digit != end; ++digit) {
      const auto byte = static_cast<std::uint8_t>(*digit);
      digest = name_digest({&byte, 1}, digest);
    }
    digests[number] = digest;
  }
  return digests;
}

std::vector<std::uint64_t> digest_words(std::span<const std::uint64_t> digests,
                                        std::uint64_t seed) {
  std::vector<std::uint64_t> words;
  words.reserve(digests.size());
  for (const std::uint64_t digest : digests) words.push_back(derive_key({seed, digest}));
  return words;
}

std::uint64_t sum_of_digests(const DigestedNames& names,
                             const std::vector<DigestedStream>& streams) {
  const std::size_t num_sequences = names.firsts.size();
  check(names.offsets, num_sequences, names.bytes.size());
  for (const DigestedStream& one : streams) {
    if (one.sample_bytes == 0) throw std::invalid_argument("a sample must have bytes");
    check(one.offsets, num_sequences, one.values.size() / one.sample_bytes);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < num_sequences; ++i) {
    Blake2b digest(kDigestBytes);
    add(digest, part(names.bytes, names.offsets, i, 1));
    digest.update_le64(sizeof(std::uint64_t));
    digest.update_le64(names.firsts[i]);
    for (const DigestedStream& one : streams) {
      add(digest, one.name);
      const std::int64_t samples = one.offsets[i + 1] - one.offsets[i];
      add(digest, one.before + std::to_string(samples) + one.after);
      add(digest, part(one.values, one.offsets, i, one.sample_bytes));
    }
    sum += digest.finish();
  }
  return sum;
}

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

Digest::Digest() noexcept : lanes_{mix64(1), mix64(2), mix64(3), mix64(4)} {}

void Digest::update(std::span<const std::byte> bytes) noexcept {
  const std::size_t filled = num_bytes_ % kStripeBytes;
  num_bytes_ += bytes.size();
  if (filled != 0) {
    const std::size_t taken = std::min(bytes.size(), kStripeBytes - filled);
    std::copy_n(bytes.begin(), taken, tail_.begin() + static_cast<std::ptrdiff_t>(filled));
    bytes = bytes.subspan(taken);
    if (filled + taken < kStripeBytes) return;
    absorb(lanes_, tail_);
  }

  Lanes lanes = lanes_;  // a local copy stays in registers
  while (bytes.size() >= kStripeBytes) {
    absorb(lanes, bytes);
    bytes = bytes.subspan(kStripeBytes);
  }
  lanes_ = lanes;
  std::ranges::copy(bytes, tail_.begin());
}

void Digest::update(std::span<const std::uint64_t> words) noexcept {
  if constexpr (std::endian::native == std::endian::little) {
    update(std::as_bytes(words));
  } else {
    for (const std::uint64_t word : words) {
      const std::uint64_t swapped = __builtin_bswap64(word);
      update(std::as_bytes(std::span(&swapped, 1)));
    }
  }
}

std::string Digest::hex() const {
  Lanes lanes = lanes_;
  if (const std::size_t filled = num_bytes_ % kStripeBytes; filled != 0) {
    auto stripe = tail_;
    std::fill(stripe.begin() + static_cast<std::ptrdiff_t>(filled), stripe.end(), std::byte{0});
    absorb(lanes, stripe);
  }
  std::string text;
  for (const std::uint64_t half : {std::uint64_t{0}, std::uint64_t{1}}) {
    append_hex(text, derive_key({half, lanes[0], lanes[1], lanes[2], lanes[3], num_bytes_}));
  }
  return text;
}

}  // namespace sweephand
