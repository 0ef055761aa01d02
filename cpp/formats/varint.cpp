#include "formats/varint.hpp"

#include "base/cpu.hpp"
#include "base/little_endian.hpp"

#include <algorithm>
#include <bit>

#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace sweephand {
namespace {

// Bit i is set if byte i of the next 64 ends a varint.
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

// The number of 64 bytes that end a varint. Not every processor has an instruction for it.
std::size_t count_ends(const std::byte* bytes) noexcept {
#ifdef __x86_64__
  __m128i ends = _mm_setzero_si128();  // in each of sixteen places
  for (int i = 0; i < 4; ++i) {
    const __m128i sixteen =
        _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + std::ptrdiff_t{16} * i));
    // NOLINTNEXTLINE(portability-simd-intrinsics): the portable way is below
    ends = _mm_sub_epi8(ends, _mm_cmpgt_epi8(sixteen, _mm_set1_epi8(-1)));
  }
  const __m128i halves = _mm_sad_epu8(ends, _mm_setzero_si128());
  return static_cast<std::size_t>(_mm_cvtsi128_si64(halves)) +
         static_cast<std::size_t>(_mm_cvtsi128_si64(_mm_unpackhi_epi64(halves, halves)));
#else
  return static_cast<std::size_t>(std::popcount(find_ends(bytes)));
#endif
}

std::size_t count_varints(std::span<const std::byte> bytes) noexcept {
  std::size_t count = 0;
  for (; bytes.size() >= 64; bytes = bytes.subspan(64)) count += count_ends(bytes.data());
  const std::uint64_t rest = (std::uint64_t{1} << bytes.size()) - 1;
  return count + static_cast<std::size_t>(std::popcount(find_ends(bytes.data()) & rest));
}

// The lowest seven bits of each of eight bytes, joined.
[[gnu::always_inline]] inline std::uint64_t join_sevens(std::uint64_t word) noexcept {
  word = (word & 0x007f007f007f007f) | ((word & 0x7f007f007f007f00) >> 1);
  word = (word & 0x00003fff00003fff) | ((word & 0x3fff00003fff0000) >> 2);
  return (word & 0x000000000fffffff) | ((word & 0x0fffffff00000000) >> 4);
}

// The ends of the varints before the first varint of more than eight bytes.
[[gnu::always_inline]] inline std::uint64_t before_long(std::uint64_t ends) noexcept {
  const std::uint64_t two = ~ends & (~ends >> 1);
  const std::uint64_t four = two & (two >> 2);
  const std::uint64_t eight = four & (four >> 4);  // starts of eight continued bytes
  return ends & ((eight & (0 - eight)) - 1);
}

// `join` joins the lowest seven bits of each of eight bytes.
template <class Join>
[[gnu::always_inline]] inline const std::byte* decode_one_by_one(const std::byte* bytes,
                                                                 std::size_t count,
                                                                 std::int64_t* out, Join join) {
  while (count > 0) {
    std::uint64_t ends = before_long(find_ends(bytes));
    if (ends == 0) {  // the first one has nine bytes or ten
      const auto ninth = std::to_integer<std::uint64_t>(bytes[8]);
      const auto tenth = std::to_integer<std::uint64_t>(bytes[9]);
      const bool has_tenth = ninth >= 0x80;
      if (has_tenth && tenth > 1) return nullptr;  // bit 64 and beyond
      const std::uint64_t value =
          join(load_le64({bytes, 8})) | (ninth & 0x7f) << 56 | (has_tenth ? tenth << 63 : 0);
      *out++ = static_cast<std::int64_t>(value);
      bytes += has_tenth ? 10 : 9;
      --count;
      continue;
    }
    const std::size_t number = std::min(count, static_cast<std::size_t>(std::popcount(ends)));
    std::uint64_t begin = 0;
    for (std::size_t i = 0; i < number; ++i, ends &= ends - 1) {
      const auto end = static_cast<std::uint64_t>(std::countr_zero(ends)) + 1;
      const std::uint64_t word = load_le64({bytes + begin, 8});
      out[i] = static_cast<std::int64_t>(
          join(word & (~std::uint64_t{0} >> (64 - 8 * (end - begin)))));
      begin = end;
    }
    bytes += begin;
    out += number;
    count -= number;
  }
  return bytes;
}

const std::byte* decode_portable(const std::byte* bytes, std::size_t count, std::int64_t* out) {
  return decode_one_by_one(bytes, count, out, join_sevens);
}

#ifdef __x86_64__

[[gnu::target("bmi,bmi2,popcnt")]] std::uint64_t join_by_bmi2(std::uint64_t word) noexcept {
  return _pext_u64(word, 0x7f7f7f7f7f7f7f7f);
}

#endif

}  // namespace

#ifdef __x86_64__
[[gnu::target("bmi,bmi2,popcnt")]] const std::byte* decode_varints_bmi2(const std::byte* bytes,
                                                                        std::size_t count,
                                                                        std::int64_t* out) {
  return decode_one_by_one(bytes, count, out, join_by_bmi2);
}
#endif

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

bool append_varints(std::span<const std::byte> bytes, ColumnVector<std::int64_t>& values) {
  static const DecodeVarints decode = ways_to_decode_varints().back();
  if (bytes.empty()) return true;
  if ((bytes.back() & std::byte{0x80}) != std::byte{0}) return false;
  const std::size_t before = values.size();
  const std::size_t count = count_varints(bytes);
  values.resize(before + count);
  return decode(bytes.data(), count, values.data() + before) != nullptr;
}

std::vector<DecodeVarints> ways_to_decode_varints() {
  std::vector<DecodeVarints> ways = {decode_portable};
#ifdef __x86_64__
  if (cpu().bmi2) ways.push_back(decode_varints_bmi2);
#endif
  return ways;
}

}  // namespace sweephand
