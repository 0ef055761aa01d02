#include "formats/example.hpp"

#include "base/error.hpp"
#include "base/little_endian.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

// The fields of a message of Protocol Buffers, one after the other
// (https://protobuf.dev/programming-guides/encoding).
//
//   | varint number << 3 | type | value |    a value of bytes: | varint length | bytes |
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

using Bytes = std::span<const std::byte>;

using Field = MessageField;

constexpr std::string_view kContext = "context/";
constexpr std::string_view kFeatureLists = "feature_lists/";

std::string_view to_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string_view name_of(FeatureKind kind) noexcept {
  constexpr std::array<std::string_view, 4> kNames = {"nothing", "bytes", "floats", "integers"};
  return kNames.at(static_cast<std::size_t>(kind));
}

ExampleColumn make_column(const ExampleStream& stream) {
  ExampleColumn column{.sample_offsets = {0}};
  if (stream.kind == FeatureKind::kBytes) {
    column.values = ColumnVector<char>{};
    column.element_offsets = {0};
  } else if (stream.kind == FeatureKind::kFloat) {
    column.values = ColumnVector<float>{};
  } else if (stream.may_narrow) {
    column.values = ColumnVector<std::uint16_t>{};
  } else {
    column.values = ColumnVector<std::int64_t>{};
  }
  return column;
}

// The number of values; values of bytes may have any length.
std::uint64_t num_values(const ExampleColumn& column) {
  if (!column.element_offsets.empty()) return column.element_offsets.size() - 1;
  return std::visit([](const auto& values) { return values.size(); }, column.values);
}

// Each adds the values of a list message, and throws DataError when it is damaged. REQUIRES:
// kVarintPadding more bytes after `list` may be read
void append_list(std::span<const std::byte> list, ColumnVector<std::int64_t>& values);
void append_list(std::span<const std::byte> list, ColumnVector<float>& values);

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

// A value of bytes ends where the list of `ends` says.
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

// Integers of 64 bits kept in a narrower type: a window of chunks is memory that is made anew,
// and its pages cost more than widening the integers again when they are delivered.
// Adds the integers that are values of type T: all, or false.
template <class T>
bool append_as(std::span<const std::int64_t> integers, ColumnVector<T>& values) {
  constexpr auto kLeast = static_cast<std::uint64_t>(std::numeric_limits<T>::min());
  const std::size_t before = values.size();
  values.resize(before + integers.size());
  T* const out = values.data() + before;
  std::uint64_t all = 0;  // the bits that some have, counted from the least of T
  for (std::size_t i = 0; i < integers.size(); ++i) {
    all |= static_cast<std::uint64_t>(integers[i]) - kLeast;
    out[i] = static_cast<T>(integers[i]);
  }
  if (sizeof(T) == sizeof all || all >> (8 * sizeof(T) % 64) == 0) return true;
  values.resize(before);
  return false;
}

// Adds integers to a variant of ColumnVectors, of the narrowest type that holds these and the
// earlier ones: uint16, int32 or int64. Widens the earlier ones.
template <class Values>
void append_narrow(std::span<const std::int64_t> integers, Values& values) {
  const auto append_widened = [&]<class T>(ColumnVector<T> wide) {
    const auto copy_from = [&](const auto& narrow) {
      wide.reserve(narrow.capacity());
      wide.assign(narrow.begin(), narrow.end());
    };
    std::visit(copy_from, values);
    if (!append_as(integers, wide)) return false;
    values = std::move(wide);
    return true;
  };
  if (auto* const shorts = std::get_if<ColumnVector<std::uint16_t>>(&values)) {
    if (append_as(integers, *shorts) || append_widened(ColumnVector<std::int32_t>())) return;
  } else if (auto* const words = std::get_if<ColumnVector<std::int32_t>>(&values)) {
    if (append_as(integers, *words)) return;
  } else {
    append_as(integers, std::get<ColumnVector<std::int64_t>>(values));
    return;
  }
  append_widened(ColumnVector<std::int64_t>());
}

}  // namespace

ExampleDecoder::ExampleDecoder(std::vector<ExampleStream> streams)
    : streams_(std::move(streams)), found_(streams_.size()) {
  if (streams_.empty()) throw std::invalid_argument("there must be a stream");
  for (const ExampleStream& stream : streams_) {
    const std::string feature = "feature '" + stream.key + "'";
    const auto same = [&](const ExampleStream& other) { return other.key == stream.key; };
    if (std::ranges::count_if(streams_, same) > 1)
      throw std::invalid_argument(feature + " is declared twice");
    if (stream.kind == FeatureKind::kNone)
      throw std::invalid_argument(feature + " must hold bytes, floats or integers");
    if (stream.sample_elements == 0 ||
        (stream.kind == FeatureKind::kBytes && stream.sample_elements != 1))
      throw std::invalid_argument(feature +
                                  ": a sample must have at least one value, and of "
                                  "bytes exactly one, got " +
                                  std::to_string(stream.sample_elements));
    columns_.push_back(make_column(stream));
    has_places_ = has_places_ || stream.key.starts_with(kContext) ||
                  stream.key.starts_with(kFeatureLists);
  }
}

void ExampleDecoder::decode(std::span<const std::byte> message) {
  if (!find_ordinary_features(message)) find_features(message);
  try {
    for (std::size_t i = 0; i < streams_.size(); ++i) {
      try {
        append(i);
      } catch (const DataError& error) {
        throw error.within({.stream = streams_[i].key});
      }
    }
  } catch (const DataError&) {
    undo();
    throw;
  }
}

void ExampleDecoder::append_empty() {
  for (ExampleColumn& column : columns_)
    column.sample_offsets.push_back(column.sample_offsets.back());
}

std::vector<FoundKind> ExampleDecoder::kinds_of(Bytes message) {
  find_features(message);
  std::vector<FoundKind> kinds;
  for (Found& found : found_) {
    if (found.is_steps) {
      kinds.push_back(kind_of_steps(found));
      continue;
    }
    find_list(found);
    kinds.push_back({.kind = is_empty(found) ? FeatureKind::kNone : found.kind});
  }
  return kinds;
}

// The kind of the first step that has values.
FoundKind ExampleDecoder::kind_of_steps(const Found& found) {
  for (Bytes steps : found.features) {
    while (take_step(steps)) {
      if (is_empty(step_)) continue;
      const ExampleStream stream{.kind = step_.kind};
      ExampleColumn column = make_column(stream);
      return {.kind = step_.kind, .step_values = append_values(stream, column, step_)};
    }
  }
  return {};
}

void ExampleDecoder::reserve(double times) {
  const auto reserve_in = [times](auto& values) {
    values.reserve(static_cast<std::size_t>(static_cast<double>(values.size()) * times));
  };
  for (ExampleColumn& column : columns_) {
    std::visit(reserve_in, column.values);
    reserve_in(column.element_offsets);
    reserve_in(column.sample_offsets);
  }
}

void ExampleDecoder::forget_features() {
  has_feature_lists_ = false;
  for (Found& found : found_) {
    found.features.clear();
    found.is_steps = found.is_twice = found.has_its_key = found.has_list = false;
  }
}

// Finds the list of every stream in an Example as all known writers lay it out: one Features
// message, and in every entry its key, then a Feature of one list. False if it is another one,
// and then nothing that was found counts.
//
//   | 0a features: | 0a entry: | 0a key | 12 feature: | 0a, 12 or 1a list | | 0a entry: ...
bool ExampleDecoder::find_ordinary_features(Bytes message) {
  constexpr std::byte kFirst{0x0a};  // a field of bytes, number 1
  constexpr std::byte kSecond{0x12};
  forget_features();
  Bytes features;
  if (!take_bytes(message, kFirst, features) || !message.empty()) return false;
  while (!features.empty()) {
    Bytes entry;
    Bytes key;
    Bytes feature;
    if (!take_bytes(features, kFirst, entry) || !take_bytes(entry, kFirst, key) ||
        !take_bytes(entry, kSecond, feature) || !entry.empty())
      return false;
    Found* const found = find_stream(to_text(key), false);
    if (found == nullptr) continue;
    Bytes list;
    const std::byte tag = feature.empty() ? std::byte{0} : feature[0];
    const auto kind = static_cast<FeatureKind>(std::to_integer<unsigned>(tag) >> 3);
    const bool is_list = tag == kFirst || tag == kSecond || tag == std::byte{0x1a};
    if (found->has_list || !is_list || !take_bytes(feature, tag, list) || !feature.empty())
      return false;
    found->lists.resize(1);
    found->lists[0] = list;
    found->kind = kind;
    found->has_list = true;
  }
  return true;
}

void ExampleDecoder::find_features(Bytes message) {
  forget_features();
  while (!message.empty()) {
    const Field features = take_field(message);
    if (features.number > 2 || features.type != kBytesField) continue;
    const bool are_lists = features.number == 2;
    has_feature_lists_ = has_feature_lists_ || are_lists;
    Bytes rest = features.bytes;
    while (!rest.empty()) {
      const Field entry = take_field(rest);
      if (entry.number == 1 && entry.type == kBytesField) find_entry(entry.bytes, are_lists);
    }
  }
}

void ExampleDecoder::find_entry(Bytes entry, bool are_steps) {
  Bytes key;
  Bytes feature;
  std::vector<Bytes> more;  // a value given twice is one value in parts
  while (!entry.empty()) {
    const Field field = take_field(entry);
    if (field.type != kBytesField) continue;
    if (field.number == 1) key = field.bytes;
    if (field.number == 2) {
      if (!feature.empty()) more.push_back(feature);
      feature = field.bytes;
    }
  }
  Found* const found = find_stream(to_text(key), are_steps);
  if (found == nullptr) return;
  found->features.assign(more.begin(), more.end());
  found->features.push_back(feature);
  found->is_steps = are_steps;
}

// The target of the feature or list of a key; null if it is not wanted.
ExampleDecoder::Found* ExampleDecoder::find_stream(std::string_view key, bool are_steps) {
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t stream = next_stream_;
    next_stream_ = stream + 1 == streams_.size() ? 0 : stream + 1;
    if (streams_[stream].key != key) continue;
    Found& found = found_[stream];
    found.is_twice = found.is_twice || (found.has_its_key && found.is_steps != are_steps);
    found.has_its_key = true;
    return &found;
  }
  if (!has_places_) return nullptr;
  const std::string placed = std::string(are_steps ? kFeatureLists : kContext).append(key);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    if (streams_[i].key == placed && !found_[i].has_its_key) return &found_[i];
  }
  return nullptr;
}

void ExampleDecoder::find_list(Found& found) {
  found.kind = FeatureKind::kNone;
  found.lists.clear();
  for (Bytes feature : found.features) {
    while (!feature.empty()) {
      const Field field = take_field(feature);
      if (field.number > 3 || field.type != kBytesField) continue;
      const auto kind = static_cast<FeatureKind>(field.number);
      if (kind != found.kind) found.lists.clear();
      found.kind = kind;
      found.lists.push_back(field.bytes);
    }
  }
}

// True if the lists have no bytes, and match any kind.
bool ExampleDecoder::is_empty(const Found& found) {
  return std::ranges::all_of(found.lists, [](Bytes list) { return list.empty(); });
}

// Takes the next step of a feature list; false when there is none.
bool ExampleDecoder::take_step(Bytes& steps) {
  while (!steps.empty()) {
    const Field field = take_field(steps);
    if (field.number != 1 || field.type != kBytesField) continue;
    step_.features.assign(1, field.bytes);
    find_list(step_);
    return true;
  }
  return false;
}

void ExampleDecoder::append(std::size_t number) {
  const ExampleStream& stream = streams_[number];
  ExampleColumn& column = columns_[number];
  Found& found = found_[number];
  if (found.is_twice)
    throw DataError(
        "the record has the key in its context and in its feature lists: say which, 'context/" +
        stream.key + "' or 'feature_lists/" + stream.key + "'");
  const auto num_samples = found.is_steps ? append_steps(stream, column, found)
                                          : append_feature(stream, column, found);
  column.sample_offsets.push_back(column.sample_offsets.back() +
                                  static_cast<std::int64_t>(num_samples));
}

// Adds the samples of a feature, and returns how many there are.
std::uint64_t ExampleDecoder::append_feature(const ExampleStream& stream, ExampleColumn& column,
                                             Found& found) {
  if (!found.has_list) find_list(found);
  if (found.kind == FeatureKind::kNone) {
    if (has_feature_lists_ && found.features.empty())
      throw DataError(
          "the record is a tf.train.SequenceExample without such a feature or feature list");
    if (stream.is_required) throw DataError("the record lacks the feature");
    return 0;
  }
  const std::uint64_t count = append_values(stream, column, found);
  const bool fits = stream.is_sequence ? count % stream.sample_elements == 0
                                       : count == stream.sample_elements;
  if (!fits)
    throw DataError(
        "the feature has " + std::to_string(count) + " values, but its shape wants " +
        (stream.is_sequence ? "a multiple of " : "") + std::to_string(stream.sample_elements));
  return count / stream.sample_elements;
}

// Adds a sample for every step of a feature list, and returns how many there are.
std::uint64_t ExampleDecoder::append_steps(const ExampleStream& stream, ExampleColumn& column,
                                           const Found& found) {
  std::uint64_t num_steps = 0;
  for (Bytes steps : found.features) {
    while (take_step(steps)) {
      const std::uint64_t count = append_values(stream, column, step_);
      if (count != stream.sample_elements)
        throw DataError("step " + std::to_string(num_steps) + " of the feature list has " +
                        std::to_string(count) + " values, but its shape wants " +
                        std::to_string(stream.sample_elements));
      ++num_steps;
    }
  }
  if (!stream.is_sequence && num_steps != 1)
    throw DataError("the record is a tf.train.SequenceExample whose feature list has " +
                    std::to_string(num_steps) + " steps, but one is wanted");
  return num_steps;
}

// Adds the values of a feature, and returns how many there are.
std::uint64_t ExampleDecoder::append_values(const ExampleStream& stream, ExampleColumn& column,
                                            const Found& found) {
  if (found.kind != stream.kind && !is_empty(found))
    throw DataError("the feature holds " + std::string(name_of(found.kind)) + ", but " +
                    std::string(name_of(stream.kind)) + " were declared");
  if (found.lists.size() == 1) {
    if (auto* const longs = std::get_if<ColumnVector<std::int64_t>>(&column.values)) {
      const std::size_t before = longs->size();
      append_list(found.lists[0], *longs);
      return longs->size() - before;
    }
  }
  const std::uint64_t before = num_values(column);
  for (const Bytes list : found.lists) {
    if (auto* const bytes = std::get_if<ColumnVector<char>>(&column.values)) {
      append_list(list, *bytes, column.element_offsets);
    } else if (auto* const floats = std::get_if<ColumnVector<float>>(&column.values)) {
      append_list(list, *floats);
    } else if (auto* const integers = std::get_if<ColumnVector<std::int64_t>>(&column.values)) {
      append_list(list, *integers);
    } else {
      append_integers(list, column);
    }
  }
  return num_values(column) - before;
}

// Adds integers to a column that may keep them in a narrow type.
void ExampleDecoder::append_integers(Bytes list, ExampleColumn& column) {
  integers_.clear();
  append_list(list, integers_);
  append_narrow(integers_, column.values);
}

// Removes a partial sequence from the columns.
void ExampleDecoder::undo() {
  std::size_t num_sequences = columns_.front().sample_offsets.size();
  for (const ExampleColumn& column : columns_)
    num_sequences = std::min(num_sequences, column.sample_offsets.size());
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    ExampleColumn& column = columns_[i];
    column.sample_offsets.resize(num_sequences);
    auto size =
        static_cast<std::size_t>(column.sample_offsets.back()) * streams_[i].sample_elements;
    if (!column.element_offsets.empty()) {
      column.element_offsets.resize(size + 1);
      size = static_cast<std::size_t>(column.element_offsets.back());
    }
    std::visit([size](auto& values) { values.resize(size); }, column.values);
  }
}

}  // namespace sweephand
