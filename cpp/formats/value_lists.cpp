#include "formats/value_lists.hpp"

#include "base/error.hpp"
#include "base/little_endian.hpp"
#include "formats/message_fields.hpp"
#include "formats/varint.hpp"

#include <bit>
#include <cstring>
#include <string>

namespace sweephand {
namespace {

[[noreturn]] void fail_of_varint() {
  throw DataError("a varint of the list is cut off or has more than 64 bits");
}

// The numbers of a list that has all in one field, as is usual; otherwise no bytes.
std::span<const std::byte> packed_in(std::span<const std::byte> list) noexcept {
  std::span<const std::byte> packed;
  return take_bytes(list, std::byte{0x0a}, packed) && list.empty()
             ? packed
             : std::span<const std::byte>();
}

}  // namespace

void append_list(std::span<const std::byte> list, ColumnVector<std::int64_t>& values) {
  if (const auto packed = packed_in(list); !packed.empty()) {
    if (!append_varints(packed, values)) fail_of_varint();
    return;
  }
  while (!list.empty()) {
    const MessageField field = take_field(list);
    if (field.number != 1 || (field.type != kBytesField && field.type != kVarintField))
      continue;
    if (!append_varints(field.bytes, values)) fail_of_varint();
  }
}

void append_list(std::span<const std::byte> list, ColumnVector<float>& values) {
  while (!list.empty()) {
    const MessageField field = take_field(list);
    if (field.number != 1 || (field.type != kBytesField && field.type != kFixed32Field))
      continue;
    const std::size_t count = field.bytes.size() / sizeof(float);
    if (count * sizeof(float) != field.bytes.size())
      throw DataError("a list of floats has " + std::to_string(field.bytes.size()) +
                      " bytes, which is no multiple of 4");
    values.resize(values.size() + count);
    if constexpr (std::endian::native == std::endian::little) {
      if (count > 0)
        std::memcpy(values.data() + values.size() - count, field.bytes.data(),
                    field.bytes.size());
    } else {
      for (std::size_t i = 0; i < count; ++i)
        values[values.size() - count + i] =
            std::bit_cast<float>(load_le32(field.bytes.subspan(i * sizeof(float))));
    }
  }
}

void append_list(std::span<const std::byte> list, ColumnVector<char>& values,
                 std::vector<std::int64_t>& ends) {
  while (!list.empty()) {
    const MessageField field = take_field(list);
    if (field.number != 1 || field.type != kBytesField) continue;
    const auto* const text = reinterpret_cast<const char*>(field.bytes.data());
    values.insert(values.end(), text, text + field.bytes.size());
    ends.push_back(static_cast<std::int64_t>(values.size()));
  }
}

}  // namespace sweephand
