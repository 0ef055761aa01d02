// Tar archives and the samples in them: whatever the bytes, they are refused at a place, or all
// that is found lies in the file; in steps and in a cut file the same is found.
//
// The first byte of an input: bit 0 asks for right checksums, the others for the size of steps.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "formats/tar_samples.hpp"
#include "read/byte_source.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

constexpr std::size_t kBlock = 512;
constexpr std::uint64_t kHeadBytes = 7;

bool is_zero(Input bytes) {
  return std::ranges::all_of(bytes, [](std::byte one) { return one == std::byte{0}; });
}

// The content behind a header in blocks, if it is there.
std::size_t content_blocks(Input header, std::size_t most) {
  const auto* const digits = reinterpret_cast<const char*>(header.data()) + 124;
  std::size_t size = 0;
  std::from_chars(digits, digits + 12, size, 8);
  const std::size_t blocks = size / kBlock + (size % kBlock != 0 ? 1 : 0);
  return blocks <= most ? blocks : 0;
}

// Gives headers their checksum, which few changes would leave right.
void mend_checksums(std::span<std::byte> archive) {
  while (archive.size() >= kBlock) {
    const auto header = archive.first(kBlock);
    const auto checksum = header.subspan(148, 8);
    if (!is_zero(header)) {
      std::ranges::fill(checksum, std::byte{' '});
      unsigned sum = 0;
      for (const std::byte one : header) sum += std::to_integer<unsigned>(one);
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "%06o", sum);
      std::memcpy(checksum.data(), text.data(), 7);
    }
    const std::size_t left = archive.size() / kBlock - 1;
    archive = archive.subspan(kBlock * (1 + content_blocks(header, left)));
  }
}

void check_error(const DataError& error, Input archive) {
  CHECK(error.place().file == "fuzz");
  CHECK(error.place().offset.has_value());
  CHECK(*error.place().offset <= archive.size());
}

// The members before the end mark or the first error.
std::vector<TarMember> members_of(Input archive, bool& is_whole) {
  const HeldBytes source("fuzz", 0, archive);
  TarWalk walk(source);
  std::vector<TarMember> members;
  is_whole = false;
  try {
    std::uint64_t at = 0;
    while (const auto member = walk.next()) {
      CHECK(walk.at() > at);
      CHECK(member->begin >= at && member->begin % kBlock == 0);
      CHECK(member->offset > member->begin && member->offset % kBlock == 0);
      CHECK(member->offset <= archive.size());
      CHECK(member->size <= archive.size() - member->offset);
      CHECK(member->offset + member->size <= walk.at());
      const auto head = walk.head_of(*member, kHeadBytes);
      CHECK(std::ranges::equal(
          head, archive.subspan(member->offset, std::min(member->size, kHeadBytes))));
      at = walk.at();
      members.push_back(*member);
    }
    is_whole = true;
  } catch (const DataError& error) {
    check_error(error, archive);
  }
  return members;
}

// The samples before the end mark or the first error, found in steps of so many bytes.
struct Found {
  Found(Input archive, std::uint64_t step)
      : samples(std::make_shared<HeldBytes>("fuzz", 0, archive),
                {{"txt", kHeadBytes}, {"seg.png", kHeadBytes}}) {
    try {
      while (samples.walk(samples.at() + step)) {
      }
    } catch (const DataError& error) {
      check_error(error, archive);
      refused_at = error.place().offset;
    }
  }

  TarSamples samples;
  std::optional<std::uint64_t> refused_at;
};

void check_field(const TarField& field, Input archive, std::uint64_t num_samples) {
  CHECK(field.offsets.size() == num_samples && field.sizes.size() == num_samples);
  CHECK(field.head_starts.size() == num_samples + 1);
  CHECK(std::ranges::is_sorted(field.head_starts));
  CHECK(field.head_starts.back() == field.heads.size());
  for (std::uint64_t i = 0; i < num_samples; ++i) {
    CHECK(field.offsets[i] <= archive.size());
    CHECK(field.sizes[i] <= archive.size() - field.offsets[i]);
    CHECK(field.offsets[i] != 0 || field.sizes[i] == 0);
    const std::uint64_t size = field.head_starts[i + 1] - field.head_starts[i];
    CHECK(size == 0 || size == std::min(field.sizes[i], kHeadBytes));
    CHECK(
        std::equal(field.heads.begin() + static_cast<std::ptrdiff_t>(field.head_starts[i]),
                   field.heads.begin() + static_cast<std::ptrdiff_t>(field.head_starts[i + 1]),
                   archive.begin() + static_cast<std::ptrdiff_t>(field.offsets[i]),
                   [](std::uint8_t one, std::byte other) {
                     return one == std::to_integer<std::uint8_t>(other);
                   }));
  }
}

void check_samples(Input archive, std::uint64_t step) {
  const Found whole(archive, archive.size() + 1);
  const Found steps(archive, step);
  const TarSamples& samples = whole.samples;
  CHECK(steps.refused_at == whole.refused_at);
  CHECK(steps.samples.keys() == samples.keys());
  CHECK(steps.samples.begins() == samples.begins());
  CHECK(steps.samples.fields() == samples.fields());
  CHECK(steps.samples.faults().size() == samples.faults().size());
  CHECK(std::ranges::is_sorted(samples.begins()));
  CHECK(samples.begins().size() == samples.keys().size());
  for (const TarFault& fault : samples.faults())
    CHECK(fault.sample < samples.keys().size() && fault.offset < archive.size());
  for (const std::string& name : samples.fields()) {
    const TarField field = samples.field(name);
    check_field(field, archive, samples.keys().size());
    CHECK(steps.samples.field(name).offsets == field.offsets);
  }
}

bool is_same(const TarMember& one, const TarMember& other) {
  return one.name == other.name && one.begin == other.begin && one.offset == other.offset &&
         one.size == other.size;
}

void run(Input input) {
  if (input.empty()) return;
  const auto flags = std::to_integer<unsigned>(input[0]);
  std::vector<std::byte> archive(input.begin() + 1, input.end());
  if ((flags & 1U) != 0) mend_checksums(archive);
  static_cast<void>(is_tar_header(archive));
  bool is_whole = false;
  const auto members = members_of(archive, is_whole);
  check_samples(archive, 1 + (flags >> 1U) * 16);

  bool is_cut_whole = false;
  const std::size_t cut = archive.size() - archive.size() * (flags >> 1U) / 128;
  const std::vector<std::byte> shorter(archive.begin(),
                                       archive.begin() + static_cast<std::ptrdiff_t>(cut));
  const auto fewer = members_of(shorter, is_cut_whole);
  CHECK(fewer.size() <= members.size());
  CHECK(std::equal(fewer.begin(), fewer.end(), members.begin(), is_same));
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
