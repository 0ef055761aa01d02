// tf.train.Example and SequenceExample messages, decoded into columns
// (https://github.com/tensorflow/tensorflow/blob/master/tensorflow/core/example/example.proto).
//
//   Example  { 1: Features }
//   Features { 1: entry { 1: key, 2: Feature } } ...                    a map
//   Feature  { 1: BytesList } or { 2: FloatList } or { 3: Int64List }
//   list     { 1: values }                                 numbers packed in one field, or not
//
//   SequenceExample { 1: Features, 2: FeatureLists }       an Example, and lists by the step
//   FeatureLists    { 1: entry { 1: key, 2: FeatureList } } ...
//   FeatureList     { 1: Feature } ...                     one for each step: a sample
//
// TensorFlow has two parsers, which differ at the edges. This one reads as the message class
// does: of a repeated key the last entry counts, of several kinds the last one, all runs of one
// list are joined, and unknown fields are passed over. It refuses messages that the class
// cannot distinguish from damage: groups, varints beyond 64 bits, and packed floats that are
// not whole.
#pragma once

#include "base/element.hpp"
#include "formats/varint.hpp"
#include "read/column.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sweephand {

inline constexpr std::size_t kExamplePadding = kVarintPadding;

enum class FeatureKind : std::uint8_t { kNone, kBytes, kFloat, kInt64 };  // as Feature's fields

struct ExampleStream {
  std::string key;  // or, of one that both parts have, context/KEY or feature_lists/KEY
  FeatureKind kind = FeatureKind::kInt64;
  std::uint64_t sample_elements = 1;  // values in a sample; 1 for bytes
  bool is_sequence = false;           // any number of samples, or exactly one
  bool is_required = true;            // or a record without it has an empty sequence
  bool may_narrow = false;            // integers may be kept in a narrower type that holds them
};

// The content of a feature or a feature list.
struct FoundKind {
  FeatureKind kind = FeatureKind::kNone;  // kNone if it has no values
  std::uint64_t step_values = 0;          // in a step of a list; 0 of a feature
};

// One sequence per example. A sample of bytes is one value, of any length.
struct ExampleColumn {
  std::variant<ColumnVector<char>, ColumnVector<float>, ColumnVector<std::int64_t>,
               ColumnVector<std::int32_t>, ColumnVector<std::uint16_t>>
      values;
  std::vector<std::int64_t> element_offsets;  // of bytes, one per sample and one more
  std::vector<std::int64_t> sample_offsets;   // one per sequence and one more
};

class ExampleDecoder {
 public:
  // Throws std::invalid_argument when the streams are contradictory.
  explicit ExampleDecoder(std::vector<ExampleStream> streams);

  // Adds one sequence to every column. Throws DataError when the message is damaged or does not
  // fit the streams; the columns are then unchanged. Keeps nothing of `message`. REQUIRES:
  // kExamplePadding more bytes after `message` may be read
  void decode(std::span<const std::byte> message);

  // Adds a sequence without samples to every column.
  void append_empty();

  // The content of each stream's feature or list in a message, whatever was declared.
  // Throws DataError when the message is damaged.
  std::vector<FoundKind> kinds_of(std::span<const std::byte> message);

  // Makes room for `times` as much as there is.
  void reserve(double times);

  const std::vector<ExampleStream>& streams() const noexcept { return streams_; }
  std::vector<ExampleColumn>& columns() noexcept { return columns_; }

 private:
  using Bytes = std::span<const std::byte>;
  // The part of a message that belongs to a stream.
  struct Found {
    std::vector<Bytes> features;  // parts of one Feature message; empty if the key is not there
    bool is_steps = false;        // they are parts of a FeatureList
    bool has_its_key = false;     // found by the stream's key as it stands
    bool is_twice = false;        // in the context and in the feature lists
    std::vector<Bytes> lists;     // parts of the Feature's list message
    FeatureKind kind = FeatureKind::kNone;
    bool has_list = false;  // the lists and their kind are known
  };

  bool find_ordinary_features(Bytes message);
  void find_features(Bytes message);
  void forget_features();
  void find_entry(Bytes entry, bool are_steps);
  Found* find_stream(std::string_view key, bool are_steps);
  static void find_list(Found& found);
  static bool is_empty(const Found& found);
  bool take_step(Bytes& steps);
  FoundKind kind_of_steps(const Found& found);
  void append(std::size_t number);
  std::uint64_t append_feature(const ExampleStream& stream, ExampleColumn& column,
                               Found& found);
  std::uint64_t append_steps(const ExampleStream& stream, ExampleColumn& column,
                             const Found& found);
  std::uint64_t append_values(const ExampleStream& stream, ExampleColumn& column,
                              const Found& found);
  void append_integers(Bytes list, ExampleColumn& column);
  void undo();

  std::vector<ExampleStream> streams_;
  std::vector<ExampleColumn> columns_;
  std::vector<Found> found_;             // one per stream
  Found step_;                           // of a feature list
  ColumnVector<std::int64_t> integers_;  // of the list that is decoded, to be narrowed
  std::size_t next_stream_ = 0;          // a guess
  bool has_places_ = false;              // a key says context/ or feature_lists/
  bool has_feature_lists_ = false;       // of the message: it is a SequenceExample
};

}  // namespace sweephand
