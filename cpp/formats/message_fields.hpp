// The fields of a message of Protocol Buffers, one after the other
// (https://protobuf.dev/programming-guides/encoding).
//
//   | varint number << 3 | type | value |    a value of bytes: | varint length | bytes |
#pragma once

#include "base/error.hpp"
#include "formats/varint.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sweephand {

inline constexpr std::uint64_t kVarintField = 0;
inline constexpr std::uint64_t kFixed64Field = 1;
inline constexpr std::uint64_t kBytesField = 2;
inline constexpr std::uint64_t kFixed32Field = 5;

struct MessageField {
  std::uint64_t number = 0;
  std::uint64_t type = 0;
  std::span<const std::byte> bytes;  // the content of bytes, the encoded value of another
};

// Throws DataError when it is cut off or too long.
inline Varint take_varint(std::span<const std::byte> bytes) {
  // Most tags and lengths are one byte.
  if (!bytes.empty() && bytes[0] < std::byte{0x80})
    return {.value = std::to_integer<std::uint64_t>(bytes[0]), .size = 1};
  const Varint varint = read_varint(bytes);
  if (varint.size == 0) throw DataError("a varint of the message is cut off or too long");
  return varint;
}

// Takes the first field from `rest`, which is not empty. Throws DataError when it cannot be
// one.
inline MessageField take_field(std::span<const std::byte>& rest) {
  const Varint tag = take_varint(rest);
  rest = rest.subspan(tag.size);
  MessageField field{.number = tag.value >> 3, .type = tag.value & 7};
  if (field.number == 0 || tag.value > 0xffffffff)
    throw DataError("the message has a field number that cannot be");
  std::uint64_t size = 0;
  switch (field.type) {
    case kVarintField:
      size = take_varint(rest).size;
      break;
    case kFixed64Field:
      size = 8;
      break;
    case kFixed32Field:
      size = 4;
      break;
    case kBytesField: {
      const Varint length = take_varint(rest);
      rest = rest.subspan(length.size);
      size = length.value;
      break;
    }
    default:
      throw DataError("the message has a field of wire type " + std::to_string(field.type) +
                      ", which no tf.train.Example has");
  }
  if (size > rest.size())
    throw DataError("a field of the message has " + std::to_string(size) + " bytes, but " +
                    std::to_string(rest.size()) + " are left");
  field.bytes = rest.first(size);
  rest = rest.subspan(size);
  return field;
}

// Takes a field of bytes from `rest` if it begins with the one-byte tag `tag`; false, and
// nothing is taken, if something else is there or it is cut off.
[[gnu::always_inline]] inline bool take_bytes(std::span<const std::byte>& rest, std::byte tag,
                                              std::span<const std::byte>& content) noexcept {
  if (rest.size() < 2 || rest[0] != tag) return false;
  auto length = std::to_integer<std::uint64_t>(rest[1]);
  std::size_t head = 2;
  if (length >= 0x80 && rest.size() > 2 && rest[2] < std::byte{0x80}) {
    length = (length & 0x7f) | std::to_integer<std::uint64_t>(rest[2]) << 7;
    head = 3;
  } else if (length >= 0x80) {
    const Varint varint = read_varint(rest.subspan(1));
    if (varint.size == 0) return false;
    length = varint.value;
    head = 1 + varint.size;
  }
  if (length > rest.size() - head) return false;
  content = rest.subspan(head, length);
  rest = rest.subspan(head + length);
  return true;
}

}  // namespace sweephand
