// The parts of base that Python cannot reach.
#include "base/digest.hpp"
#include "base/error.hpp"
#include "base/search.hpp"
#include "check.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

void a_caller_adds_only_what_is_unknown() {
  const DataError inner("bad length", {.file = "a.bin", .offset = 8});
  const DataError outer = inner.within({.file = "b.bin", .stream = "labels", .sequence = 3});
  CHECK(std::string(outer.what()) == "a.bin @ 8 [stream 'labels', sequence 3]: bad length");
  CHECK(std::string(inner.what()) == "a.bin @ 8: bad length");
  CHECK(outer.reason() == "bad length");
}

void stale_stays_stale_through_within() {
  CHECK(StaleError("changed").within({.chunk = 1}).is_stale());
  CHECK(!DataError("wrong").within({.chunk = 1}).is_stale());
}

void a_guess_finds_where_things_begin_and_end() {
  const auto check = [](const std::vector<std::uint64_t>& starts) {
    const EvenGuess guess(starts.size() - 1, starts.back());
    const std::span<const std::uint64_t> begins = std::span(starts).first(starts.size() - 1);
    for (const std::uint64_t start : begins) {
      for (const std::uint64_t value : {start, start + 1, start + 9}) {
        if (value < starts.back())
          CHECK(guess.find(starts, value) == last_at_or_before(begins, value));
      }
    }
    CHECK(guess.find(starts, starts.back() - 1) ==
          last_at_or_before(begins, starts.back() - 1));
  };
  check({0, 1});
  check({0, 10, 20, 30, 40, 50, 60, 70});
  check({0, 0, 10, 10, 10, 1000, 1000});
  check({0, 1000, 1001, 1002});
}

void words_digest_as_their_little_endian_bytes() {
  const std::vector<std::uint64_t> words{0x0807060504030201, 0, 5, 6, 7};
  std::vector<std::byte> bytes;
  for (const std::uint64_t word : words) {
    for (unsigned i = 0; i < 8; ++i)
      bytes.push_back(static_cast<std::byte>((word >> (8 * i)) & 255));
  }
  Digest of_words;
  of_words.update(words);
  Digest of_bytes;
  of_bytes.update(bytes);
  CHECK(of_words.hex() == of_bytes.hex());
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::a_caller_adds_only_what_is_unknown();
  sweephand::stale_stays_stale_through_within();
  sweephand::a_guess_finds_where_things_begin_and_end();
  sweephand::words_digest_as_their_little_endian_bytes();
}
