#include "base/name_digest.hpp"

#include "base/mix.hpp"

#include <array>
#include <charconv>
#include <cstddef>
#include <stdexcept>

namespace sweephand {

std::vector<std::uint64_t> name_digests(std::span<const std::uint8_t> bytes,
                                        std::span<const std::int64_t> offsets) {
  std::vector<std::uint64_t> digests;
  if (offsets.empty()) return digests;
  digests.reserve(offsets.size() - 1);
  auto begin = static_cast<std::uint64_t>(offsets.front());
  for (const std::int64_t offset : offsets.subspan(1)) {
    const auto end = static_cast<std::uint64_t>(offset);
    if (end < begin || end > bytes.size())
      throw std::invalid_argument("the offsets of names must ascend within their bytes");
    digests.push_back(name_digest(bytes.subspan(begin, end - begin)));
    begin = end;
  }
  return digests;
}

std::vector<std::uint64_t> numbered_digests(std::span<const std::uint8_t> prefix,
                                            std::uint64_t count) {
  constexpr std::size_t kMostDigits = 20;
  const std::uint64_t begin = name_digest(prefix);
  std::vector<std::uint64_t> digests(count);
  std::array<char, kMostDigits> digits{};
  for (std::uint64_t number = 0; number < count; ++number) {
    const char* const end =
        std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    std::uint64_t digest = begin;
    for (const char* digit = digits.data(); digit != end; ++digit) {
      const auto byte = static_cast<std::uint8_t>(*digit);
      digest = name_digest({&byte, 1}, digest);
    }
    digests[number] = digest;
  }
  return digests;
}

std::vector<std::uint64_t> digest_words(std::span<const std::uint64_t> digests,
                                        std::uint64_t seed) {
  std::vector<std::uint64_t> words;
  words.reserve(digests.size());
  for (const std::uint64_t digest : digests) words.push_back(derive_key({seed, digest}));
  return words;
}

}  // namespace sweephand
