// Every way to decode varints.
#include "base/mix.hpp"
#include "check.hpp"
#include "formats/varint.hpp"
#include "read/column_vector.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
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
  sweephand::every_way_decodes_the_same_varints();
  sweephand::more_than_64_bits_are_refused_every_way();
}
