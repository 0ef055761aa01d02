#include "base/digest.hpp"

#include "base/little_endian.hpp"
#include "base/mix.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

namespace sweephand {
namespace {

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
