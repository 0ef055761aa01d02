#include "formats/example.hpp"

#include "base/error.hpp"
#include "base/little_endian.hpp"
#include "formats/narrow_integers.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::uint64_t kVarintField = 0;
constexpr std::uint64_t kFixed64Field = 1;
constexpr std::uint64_t kBytesField = 2;
constexpr std::uint64_t kFixed32Field = 5;

struct Field {
  std::uint64_t number = 0;
  std::uint64_t type = 0;
  Bytes bytes;  // the content of a bytes field, the encoded value of another
};

std::string_view to_text(Bytes bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Varint take_varint(Bytes bytes) {
  // Most tags and lengths are one byte.
  if (!bytes.empty() && bytes[0] < std::byte{0x80})
    return {.value = std::to_integer<std::uint64_t>(bytes[0]), .size = 1};
  const Varint varint = read_varint(bytes);
  if (varint.size == 0) throw DataError("a varint of the message is cut off or too long");
  return varint;
}

// Takes the first field from `rest`.
Field take_field(Bytes& rest) {
  const Varint tag = take_varint(rest);
  rest = rest.subspan(tag.size);
  Field field{.number = tag.value >> 3, .type = tag.value & 7};
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

void append_list(Bytes list, ColumnVector<std::int64_t>& values) {
  while (!list.empty()) {
    const Field field = take_field(list);
    if (field.number != 1 || (field.type != kBytesField && field.type != kVarintField))
      continue;
    if (!append_varints(field.bytes, values))
      throw DataError("a varint of the list is cut off or has more than 64 bits");
  }
}

void append_list(Bytes list, ColumnVector<float>& values) {
  while (!list.empty()) {
    const Field field = take_field(list);
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

// A value ends where the list of `ends` says.
void append_list(Bytes list, ColumnVector<char>& values, std::vector<std::int64_t>& ends) {
  while (!list.empty()) {
    const Field field = take_field(list);
    if (field.number != 1 || field.type != kBytesField) continue;
    const std::string_view text = to_text(field.bytes);
    values.insert(values.end(), text.begin(), text.end());
    ends.push_back(static_cast<std::int64_t>(values.size()));
  }
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

// Values in all: of bytes those of any length.
std::uint64_t num_values(const ExampleColumn& column) {
  if (!column.element_offsets.empty()) return column.element_offsets.size() - 1;
  return std::visit([](const auto& values) { return values.size(); }, column.values);
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
  }
}

void ExampleDecoder::decode(std::span<const std::byte> message) {
  for (Found& found : found_) found.features.clear();
  find_features(message);
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

std::vector<FeatureKind> ExampleDecoder::kinds_of(std::span<const std::byte> message) {
  for (Found& found : found_) found.features.clear();
  find_features(message);
  std::vector<FeatureKind> kinds;
  for (Found& found : found_) {
    find_list(found);
    kinds.push_back(is_empty(found) ? FeatureKind::kNone : found.kind);
  }
  return kinds;
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

void ExampleDecoder::find_features(Bytes message) {
  has_feature_lists_ = false;
  while (!message.empty()) {
    const Field features = take_field(message);
    if (features.number == 2 && features.type == kBytesField) has_feature_lists_ = true;
    if (features.number != 1 || features.type != kBytesField) continue;
    Bytes rest = features.bytes;
    while (!rest.empty()) {
      const Field entry = take_field(rest);
      if (entry.number == 1 && entry.type == kBytesField) find_entry(entry.bytes);
    }
  }
}

void ExampleDecoder::find_entry(Bytes entry) {
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
  const std::string_view text = to_text(key);
  for (std::size_t i = 0; i < streams_.size(); ++i) {
    const std::size_t stream = next_stream_;
    next_stream_ = stream + 1 == streams_.size() ? 0 : stream + 1;
    if (streams_[stream].key != text) continue;
    found_[stream].features.assign(more.begin(), more.end());
    found_[stream].features.push_back(feature);
    return;
  }
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

// Whether the lists have no bytes, so that they are lists of any kind.
bool ExampleDecoder::is_empty(const Found& found) {
  return std::ranges::all_of(found.lists, [](Bytes list) { return list.empty(); });
}

void ExampleDecoder::append(std::size_t number) {
  const ExampleStream& stream = streams_[number];
  ExampleColumn& column = columns_[number];
  Found& found = found_[number];
  find_list(found);
  const std::int64_t first = column.sample_offsets.back();
  if (found.kind == FeatureKind::kNone) {
    if (has_feature_lists_ && found.features.empty())
      throw DataError(
          "the record is a tf.train.SequenceExample without such a feature in its context; its "
          "feature lists are not read: write them as features of a tf.train.Example, each one "
          "flat list");
    if (stream.is_required) throw DataError("the record lacks the feature");
    column.sample_offsets.push_back(first);
    return;
  }
  if (found.kind != stream.kind && !is_empty(found))
    throw DataError("the feature holds " + std::string(name_of(found.kind)) + ", but " +
                    std::string(name_of(stream.kind)) + " were declared");

  const std::uint64_t before = num_values(column);
  for (const Bytes list : found.lists) {
    if (auto* const bytes = std::get_if<ColumnVector<char>>(&column.values)) {
      append_list(list, *bytes, column.element_offsets);
    } else if (auto* const floats = std::get_if<ColumnVector<float>>(&column.values)) {
      append_list(list, *floats);
    } else if (auto* const integers = std::get_if<ColumnVector<std::int64_t>>(&column.values)) {
      append_list(list, *integers);
    } else {
      integers_.clear();
      append_list(list, integers_);
      append_narrow(integers_, column.values);
    }
  }
  const std::uint64_t count = num_values(column) - before;
  const bool fits = stream.is_sequence ? count % stream.sample_elements == 0
                                       : count == stream.sample_elements;
  if (!fits)
    throw DataError(
        "the feature has " + std::to_string(count) + " values, but its shape wants " +
        (stream.is_sequence ? "a multiple of " : "") + std::to_string(stream.sample_elements));
  column.sample_offsets.push_back(first +
                                  static_cast<std::int64_t>(count / stream.sample_elements));
}

// Forgets what the columns have of a sequence that not all of them have.
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
