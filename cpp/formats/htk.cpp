#include "formats/htk.hpp"

#include "base/error.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint16_t kBase = 077;
constexpr std::uint16_t kCompressed = 02000;
constexpr std::uint16_t kHtkChecksum = 010000;
constexpr std::uint16_t kQuantized = 040000;  // with a codebook index after the values
constexpr std::uint64_t kScaleFrames = 4;     // the frames that a and b are counted as

// The first bytes as an integer. REQUIRES: bytes.size() >= sizeof(T)
template <class T>
T load(std::span<const std::byte> bytes, bool is_big_endian) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  if (is_big_endian == (std::endian::native == std::endian::big)) return value;
  if constexpr (sizeof(T) == 2) return __builtin_bswap16(value);
  return static_cast<T>(__builtin_bswap32(value));
}

float load_float(std::span<const std::byte> bytes, bool is_big_endian) {
  return std::bit_cast<float>(load<std::uint32_t>(bytes, is_big_endian));
}

struct Raw {
  std::uint32_t frames;
  std::uint32_t period;
  std::uint16_t frame_bytes;
  std::uint16_t kind;

  // The size of a file with this header.
  std::uint64_t file_bytes() const noexcept {
    return kHtkHeaderBytes + std::uint64_t{frames} * frame_bytes +
           ((kind & kHtkChecksum) != 0 ? 2 : 0);
  }
};

Raw parse(std::span<const std::byte> head, bool is_big_endian) {
  return {.frames = load<std::uint32_t>(head, is_big_endian),
          .period = load<std::uint32_t>(head.subspan(4), is_big_endian),
          .frame_bytes = load<std::uint16_t>(head.subspan(8), is_big_endian),
          .kind = load<std::uint16_t>(head.subspan(10), is_big_endian)};
}

// The reason to refuse a kind, as its values are no floats; null if it is served.
const char* refusal(const Raw& raw) {
  switch (raw.kind & kBase) {
    case 0:
      return "a waveform, not frames of features";
    case 5:
      return "reflection coefficients as int16 (IREFC), which are not read";
    case 10:
      return "indices of a codebook (DISCRETE), which are not read";
    default:
      break;
  }
  if ((raw.kind & kBase) > 11) return "frames of a kind that HTK does not define";
  if ((raw.kind & kQuantized) != 0)
    return "indices of a codebook behind the values (_V), which are not read";
  if (raw.frame_bytes == 0) return "frames without values";
  if (raw.frame_bytes % ((raw.kind & kCompressed) != 0 ? 2 : 4) != 0)
    return "frames that are no whole number of values";
  return nullptr;
}

// Decodes frames one after the other.
void decode(std::span<const std::byte> bytes, const HtkCoding& coding, std::span<float> out) {
  if (coding.scale.empty()) {
    for (std::size_t i = 0; i < out.size(); ++i)
      out[i] = load_float(bytes.subspan(4 * i), coding.is_big_endian);
    return;
  }
  const std::span a = std::span(coding.scale).first(coding.dimension);
  const std::span b = std::span(coding.scale).subspan(coding.dimension);
  for (std::size_t i = 0; i < out.size(); i += coding.dimension) {
    for (std::size_t k = 0; k < coding.dimension; ++k) {
      const auto stored = static_cast<std::int16_t>(
          load<std::uint16_t>(bytes.subspan(2 * (i + k)), coding.is_big_endian));
      out[i + k] = (static_cast<float>(stored) + b[k]) / a[k];
    }
  }
}

// Puts the frames around each frame of a sequence beside it.
void widen(std::span<const float> frames, std::uint64_t dimension, std::int64_t left,
           std::int64_t right, std::span<float> out) {
  const auto last = static_cast<std::int64_t>(frames.size() / dimension) - 1;
  for (std::int64_t frame = 0; frame <= last; ++frame) {
    for (std::int64_t one = frame - left; one <= frame + right; ++one) {
      const auto from = static_cast<std::uint64_t>(std::clamp<std::int64_t>(one, 0, last));
      std::ranges::copy(frames.subspan(from * dimension, dimension), out.begin());
      out = out.subspan(dimension);
    }
  }
}

}  // namespace

HtkHeader parse_htk_header(std::span<const std::byte> head, std::uint64_t file_bytes) {
  if (head.size() < kHtkHeaderBytes)
    throw DataError("the file ends within its header of 12 bytes", {.offset = 0});
  const Raw big = parse(head, true);
  const Raw little = parse(head, false);
  const bool is_big_endian = big.file_bytes() == file_bytes;
  const Raw& raw = is_big_endian ? big : little;
  if (raw.file_bytes() != file_bytes) {
    throw DataError("the header tells of " + std::to_string(big.frames) + " frames of " +
                        std::to_string(big.frame_bytes) + " bytes, which are " +
                        std::to_string(big.file_bytes()) + " with it; the file has " +
                        std::to_string(file_bytes),
                    {.offset = 0});
  }
  if (const char* reason = refusal(raw))
    throw DataError("the file holds " + std::string(reason), {.offset = 10});
  HtkHeader header{.is_big_endian = is_big_endian,
                   .is_compressed = (raw.kind & kCompressed) != 0,
                   .num_frames = raw.frames,
                   .period = raw.period,
                   .frame_bytes = raw.frame_bytes,
                   .dimension = raw.frame_bytes / 4U,
                   .begin = kHtkHeaderBytes,
                   .kind = raw.kind};
  if (header.is_compressed) {
    if (header.num_frames < kScaleFrames)
      throw DataError("the file ends within the scale of its compressed values", {.offset = 0});
    header.dimension = raw.frame_bytes / 2U;
    header.num_frames -= kScaleFrames;
    header.begin += kScaleFrames * header.frame_bytes;
  }
  return header;
}

std::vector<float> read_htk_scale(std::span<const std::byte> bytes, bool is_big_endian) {
  std::vector<float> scale(bytes.size() / 4);
  for (std::size_t i = 0; i < scale.size(); ++i)
    scale[i] = load_float(bytes.subspan(4 * i), is_big_endian);
  return scale;
}

std::vector<float> read_htk_frames(std::span<const std::byte> bytes, const HtkCoding& coding,
                                   std::span<const std::int64_t> lengths, std::uint64_t left,
                                   std::uint64_t right) {
  const std::uint64_t dimension = coding.dimension;
  const std::uint64_t value_bytes = coding.scale.empty() ? 4 : 2;
  if (dimension == 0 || (!coding.scale.empty() && coding.scale.size() != 2 * dimension))
    throw std::invalid_argument("frames need a dimension, and a scale of two vectors of it");
  const std::uint64_t num_values = bytes.size() / value_bytes;
  std::uint64_t rest = num_values / dimension;
  for (const std::int64_t length : lengths) {
    if (length < 0 || std::cmp_greater(length, rest))
      throw std::invalid_argument("the frames need more bytes");
    rest -= static_cast<std::uint64_t>(length);
  }
  if (rest != 0 || num_values % dimension != 0 || bytes.size() % value_bytes != 0)
    throw std::invalid_argument("the frames need fewer bytes");
  std::vector<float> frames(num_values);
  decode(bytes, coding, frames);
  if (left == 0 && right == 0) return frames;
  const std::uint64_t width = 1 + left + right;
  std::vector<float> wide(frames.size() * width);
  std::span<const float> from(frames);
  std::span<float> out(wide);
  for (const std::int64_t length : lengths) {
    const auto count = static_cast<std::uint64_t>(length) * dimension;
    widen(from.first(count), dimension, static_cast<std::int64_t>(left),
          static_cast<std::int64_t>(right), out.first(count * width));
    from = from.subspan(count);
    out = out.subspan(count * width);
  }
  return wide;
}

}  // namespace sweephand
