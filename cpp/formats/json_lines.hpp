// Lines of JSON, one object each, whose fields hold numbers, texts, or lists of either.
#pragma once

#include "base/element.hpp"
#include "read/column.hpp"
#include "read/deserializer.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

inline constexpr std::size_t kJsonPadding = 16;  // bytes behind the text that may be read

// A key, and the type that its numbers will be delivered in; opaque: that of the column. "a.b"
// is also the key b of the object a, at any depth.
struct JsonKey {
  std::string name;
  ElementType wanted = ElementType::kOpaque;
};

// The values of some keys as a chunk: a sequence per line that is not blank, empty where the
// line lacks the key. Columns are of bool, int64 or float64, whichever holds all values, or
// opaque for texts, in UTF-8.
//
// Null when anything is not ordinary: text that is no JSON, or not UTF-8; a value that is null,
// an object, a list of lists, or of numbers and others; an integer of 19 digits or more, or
// among floats one beyond those that the wanted ones all hold; a float out of range, or halfway
// between two of the declared type; half a surrogate pair; a key twice, or written with an
// escape; a key of a value that is no object. The caller then reads such lines in another way,
// which finds the error and its place.
//
// REQUIRES: kJsonPadding zeros follow `text`
std::shared_ptr<const Chunk> read_json_lines(const std::vector<JsonKey>& keys,
                                             std::span<const char> text);

}  // namespace sweephand
