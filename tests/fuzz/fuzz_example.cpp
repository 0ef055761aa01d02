// tf.train.Example and SequenceExample: no message makes the decoder do anything but throw, and
// then the columns are as before; both ways to decode varints agree.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/example.hpp"
#include "formats/varint.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <variant>
#include <vector>

namespace sweephand {
namespace {

std::uint64_t num_values(const ExampleColumn& column) {
  return std::visit([](const auto& values) { return std::uint64_t{values.size()}; },
                    column.values);
}

void check_varints(std::span<const std::byte> bytes) {
  ColumnVector<std::int64_t> appended;
  ColumnVector<std::int64_t> plain;
  bool is_whole = true;
  auto rest = bytes;
  while (is_whole && !rest.empty()) {
    const Varint varint = read_varint(rest);
    is_whole = varint.size > 0;
    rest = rest.subspan(varint.size);
    if (is_whole) plain.push_back(static_cast<std::int64_t>(varint.value));
  }
  CHECK(append_varints(bytes, appended) == is_whole);
  if (!is_whole) return;
  CHECK(appended == plain);
  for (const DecodeVarints decode : ways_to_decode_varints()) {
    ColumnVector<std::int64_t> decoded(plain.size());
    CHECK(decode(bytes.data(), plain.size(), decoded.data()) == bytes.data() + bytes.size());
    CHECK(decoded == plain);
  }
}

void check_whole(ExampleDecoder& decoder, std::size_t num_sequences, std::size_t num_bytes) {
  for (const ExampleColumn& column : decoder.columns()) {
    CHECK(column.sample_offsets.size() == num_sequences + 1);
    CHECK(std::ranges::is_sorted(column.sample_offsets));
    CHECK(num_values(column) <= num_sequences * num_bytes);
  }
}

void run(Input input) {
  std::vector<std::byte> padded(input.begin(), input.end());
  padded.resize(input.size() + kExamplePadding);
  const auto message = std::span<const std::byte>(padded).first(input.size());
  check_varints(message);

  const bool is_required = input.size() % 2 == 0;
  ExampleDecoder decoder(
      {{.key = "tokens", .is_sequence = true, .is_required = false},
       {.key = "label", .is_required = is_required},
       {.key = "box",
        .kind = FeatureKind::kFloat,
        .sample_elements = 2,
        .is_required = is_required},
       {.key = "context/label", .is_required = is_required},
       {.key = "feature_lists/tokens", .is_sequence = true, .is_required = false},
       {.key = "text",
        .kind = FeatureKind::kBytes,
        .is_sequence = true,
        .is_required = is_required}});
  std::size_t num_sequences = 0;
  for (int i = 0; i < 2; ++i) {
    try {
      decoder.decode(message);
      ++num_sequences;
    } catch (const DataError&) {
      check_whole(decoder, num_sequences, input.size());  // as before
    }
  }
  check_whole(decoder, num_sequences, input.size());
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
