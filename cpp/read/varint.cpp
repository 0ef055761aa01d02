#include "read/varint.hpp"

#include "base/little_endian.hpp"

#include <algorithm>
#include <bit>

#ifdef __x86_64__
#include <immintrin.h>
#define SWEEPHAND_HAS_BMI2 1
#endif

namespace sweephand {
namespace {

// Bit i says that byte i of the next 64 ends a varint.
[[gnu::always_inline]] inline std::uint64_t find_ends(const std::byte* bytes) noexcept {
  std::uint64_t goes_on = 0;
#ifdef __x86_64__
  for (int i = 3; i >= 0; --i) {
    const __m128i sixteen =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + std::ptrdiff_t{16} * i));
    goes_on = (goes_on << 16) | static_cast<std::uint32_t>(_mm_movemask_epi8(sixteen));
  }
#else
  for (int i = 63; i >= 0; --i)
    goes_on = (goes_on << 1) | std::to_integer<unsigned>(bytes[i] >> 7);
#endif
  return ~goes_on;
}

// The lowest seven bits of each of eight bytes, joined.
[[gnu::always_inline]] inline std::uint64_t join_sevens(std::uint64_t word) noexcept {
  word = (word & 0x007f007f007f007f) | ((word & 0x7f007f007f007f00) >> 1);
  word = (word & 0x00003fff00003fff) | ((word & 0x3fff00003fff0000) >> 2);
  return (word & 0x000000000fffffff) | ((word & 0x0fffffff00000000) >> 4);
}

// `join` joins the lowest seven bits of each of eight bytes.
template <class Join>
[[gnu::always_inline]] inline bool append(std::span<const std::byte> bytes,
                                          Buffer<std::int64_t>& values, Join join) {
  const std::byte* const begin = bytes.data();
  const std::size_t size = bytes.size();
  const auto ends_in = [begin, size](std::size_t block) {
    const std::uint64_t ends = find_ends(begin + block);
    return size - block < 64 ? ends & ((std::uint64_t{1} << (size - block)) - 1) : ends;
  };
  if (size == 0) return true;
  if ((bytes.back() & std::byte{0x80}) != std::byte{0}) return false;

  std::size_t count = 0;
  for (std::size_t block = 0; block < size; block += 64)
    count += static_cast<std::size_t>(std::popcount(ends_in(block)));
  values.resize(values.size() + count);
  std::int64_t* out = values.data() + (values.size() - count);

  const std::byte* varint = begin;
  for (std::size_t block = 0; block < size; block += 64) {
    for (std::uint64_t ends = ends_in(block); ends != 0; ends &= ends - 1) {
      const std::byte* const next = begin + block + std::countr_zero(ends) + 1;
      const auto length = static_cast<std::size_t>(next - varint);
      if (length <= 8) {
        const std::uint64_t word = load_le64({varint, 8});
        *out++ =
            static_cast<std::int64_t>(join(word & (~std::uint64_t{0} >> (64 - 8 * length))));
      } else {
        const Varint slow = read_varint({varint, length});
        if (slow.size == 0) return false;
        *out++ = static_cast<std::int64_t>(slow.value);
      }
      varint = next;
    }
  }
  return true;
}

#ifdef SWEEPHAND_HAS_BMI2

[[gnu::target("bmi,bmi2,popcnt")]] std::uint64_t join_by_bmi2(std::uint64_t word) noexcept {
  return _pext_u64(word, 0x7f7f7f7f7f7f7f7f);
}

[[gnu::target("bmi,bmi2,popcnt")]] bool append_by_bmi2(std::span<const std::byte> bytes,
                                                       Buffer<std::int64_t>& values) {
  return append(bytes, values, join_by_bmi2);
}

// The first two generations of Zen have the instruction, but as a slow program.
bool has_fast_bmi2() noexcept {
  const bool has_it = __builtin_cpu_supports("bmi2");
  const bool is_slow = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
  return has_it && !is_slow;
}

#endif

}  // namespace

Varint read_varint(std::span<const std::byte> bytes) noexcept {
  constexpr std::size_t kMaxSize = 10;
  Varint varint;
  for (std::size_t i = 0; i < std::min(bytes.size(), kMaxSize); ++i) {
    const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
    if (i == kMaxSize - 1 && byte > 1) break;  // bit 64 and beyond
    varint.value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      varint.size = i + 1;
      break;
    }
  }
  return varint;
}

bool append_varints(std::span<const std::byte> bytes, Buffer<std::int64_t>& values) {
#ifdef SWEEPHAND_HAS_BMI2
  if (has_fast_bmi2()) return append_by_bmi2(bytes, values);
#endif
  return append(bytes, values, join_sevens);
}

bool append_varints_portable(std::span<const std::byte> bytes, Buffer<std::int64_t>& values) {
  return append(bytes, values, join_sevens);
}

}  // namespace sweephand
