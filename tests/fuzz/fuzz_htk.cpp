// Feature files of HTK: whatever the bytes, they are refused, or their header tells of frames
// that are all there, with those beside them or without.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/htk.hpp"

#include <array>
#include <cstddef>
#include <cstdint>

namespace sweephand {
namespace {

void run(Input input) {
  HtkHeader header;
  try {
    header = parse_htk_header(input, input.size());
  } catch (const DataError&) {
    return;
  }
  const std::uint64_t size = header.num_frames * header.frame_bytes;
  CHECK(header.dimension > 0);
  CHECK(header.begin <= input.size());
  CHECK(size <= input.size() - header.begin);
  HtkCoding coding{.is_big_endian = header.is_big_endian, .dimension = header.dimension};
  if (header.is_compressed)
    coding.scale = read_htk_scale(input.subspan(kHtkHeaderBytes, 8 * header.dimension),
                                  header.is_big_endian);
  const auto first = static_cast<std::int64_t>(header.num_frames / 2);
  const std::array lengths{first, static_cast<std::int64_t>(header.num_frames) - first};
  const Input frames = input.subspan(header.begin, size);
  const std::uint64_t num_values = header.num_frames * header.dimension;
  CHECK(read_htk_frames(frames, coding, lengths, 0, 0).size() == num_values);
  CHECK(read_htk_frames(frames, coding, lengths, 2, 1).size() == 4 * num_values);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
