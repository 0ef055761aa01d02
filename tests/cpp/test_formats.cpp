// Every way to decode varints, and to read numbers.
#include "base/cpu.hpp"
#include "base/mix.hpp"
#include "check.hpp"
#include "formats/decimal.hpp"
#include "formats/numbers.hpp"
#include "formats/varint.hpp"
#include "read/column.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

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
  check_varints_of(0, 16);
  check_varints_of(0, 17);
  check_varints_of(28, 29);
  check_varints_of(30, 56);
  check_varints_of(50, 56);
  check_varints_of(57, 63);
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

// The characters of numbers and what stands between them, numbers of them most often.
std::string random_text(std::uint64_t seed) {
  static constexpr std::string_view kBytes =
      "0123456789012345678901234567890....---:::    \t|eE+x";
  std::string text = " ";
  for (std::uint64_t i = 0; i < mix64(seed) % 90; ++i) {
    const std::uint64_t random = mix64(1000 * seed + i);
    if (random % 3 == 0) {
      text += " " + std::to_string(random % 1'000'003 % (1 + i * i)) + ":";
    } else if (random % 3 == 1) {
      text += std::to_string(static_cast<double>(random % 20'000'003) / 1e3 - 1e4);
    } else {
      text += kBytes[random / 3 % kBytes.size()];
    }
  }
  return text + "\n";
}

template <class T>
auto bits_of(T value) {
  return std::bit_cast<std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>>(value);
}

// The index before a value, and what is behind its colon.
const char* check_index(const char* text, std::int32_t expected) {
  const Digits index = read_digits(text);
  CHECK(*index.end == ':');
  CHECK(std::cmp_equal(index.value, expected));
  CHECK(index.value < 5000);
  return index.end + 1;
}

// What was read of a text, number after number, is what read_number says of each.
template <class T>
void check_run(const char* text, const NumberRun& run, const NumberRoom<T>& room) {
  CHECK(run.count <= room.count);
  for (std::size_t i = 0; i < run.count; ++i) {
    CHECK(*text == ' ');
    ++text;
    if (room.indices != nullptr) text = check_index(text, room.indices[i]);
    const Decimal<T> number = read_number<T>(text);
    CHECK(number.fault == DecimalFault::kNone);
    CHECK(bits_of(number.value) == bits_of(room.values[i]));
    text = number.end;
  }
  CHECK(text == run.end);
}

template <class T>
void check_runs_of(const std::string& padded) {
  std::array<T, 64> values{};
  std::array<std::int32_t, 64> indices{};
  const NumberRoom<T> room{.values = values.data(), .count = 3 + padded.size() % 61};
  const NumberRoom<T> pairs{
      .values = values.data(), .indices = indices.data(), .count = room.count};
  for (std::size_t begin = 0; begin < padded.size() - kNumberPadding; ++begin) {
    const char* const text = padded.data() + begin;
    check_run(text, numbers::read_numbers_portable(text, room), room);
    check_run(text, numbers::read_pairs_portable(text, 5000, pairs), pairs);
#ifdef __x86_64__
    if (!cpu().avx2) continue;
    check_run(text, numbers::read_numbers_avx2(text, room), room);
    check_run(text, numbers::read_pairs_avx2(text, 5000, pairs), pairs);
#endif
  }
}

void every_way_reads_the_same_numbers() {
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    const std::string padded = random_text(seed) + std::string(kNumberPadding, '\n');
    check_runs_of<float>(padded);
    check_runs_of<double>(padded);
  }
}

void ordinary_numbers_are_one_run() {
  const std::string text = " 1.5 -2 0.000001 2345678.5 -0 00.25|";
  const std::string pairs = " 7:1.5 12:-2 4999:0.5 0:1|";
  std::array<float, 8> values{};
  std::array<std::int32_t, 8> indices{};
  const NumberRoom<float> room{.values = values.data(), .indices = indices.data(), .count = 8};
  const std::string padding(kNumberPadding, '\n');
  CHECK(read_numbers((text + padding).c_str(), room).count == 6);
  CHECK(values[1] == -2);
  CHECK(values[2] == 1e-6F);
  CHECK(values[5] == 0.25F);
  CHECK(bits_of(values[4]) == bits_of(-0.0F));
  CHECK(read_pairs((pairs + padding).c_str(), 5000, room).count == 4);
  CHECK(indices[2] == 4999);
  CHECK(values[2] == 0.5F);
  CHECK(values[3] == 1);
  CHECK(read_pairs((pairs + padding).c_str(), 4999, room).count == 2);
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::every_way_decodes_the_same_varints();
  sweephand::more_than_64_bits_are_refused_every_way();
  sweephand::every_way_reads_the_same_numbers();
  sweephand::ordinary_numbers_are_one_run();
}
