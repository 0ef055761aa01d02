#include "base/sequence_digest.hpp"

#include "base/blake2b.hpp"

#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

constexpr std::size_t kDigestBytes = 8;

void check(std::span<const std::int64_t> offsets, std::size_t num_sequences,
           std::uint64_t num_entries) {
  bool fits = offsets.size() == num_sequences + 1 && offsets.front() >= 0 &&
              std::cmp_less_equal(offsets.back(), num_entries);
  for (std::size_t i = 0; fits && i < num_sequences; ++i) fits = offsets[i] <= offsets[i + 1];
  if (!fits) throw std::invalid_argument("offsets must ascend within what they are of");
}

// The bytes between two offsets.
std::span<const std::byte> part(std::span<const std::byte> bytes,
                                std::span<const std::int64_t> offsets, std::size_t i,
                                std::uint64_t entry_bytes) {
  const std::uint64_t begin = static_cast<std::uint64_t>(offsets[i]) * entry_bytes;
  return bytes.subspan(begin, static_cast<std::uint64_t>(offsets[i + 1]) * entry_bytes - begin);
}

void add(Blake2b& digest, std::span<const std::byte> bytes) {
  digest.update_le64(bytes.size());
  digest.update(bytes);
}

void add(Blake2b& digest, const std::string& text) {
  add(digest, std::as_bytes(std::span(text)));
}

}  // namespace

std::uint64_t sum_of_digests(const DigestedNames& names,
                             const std::vector<DigestedStream>& streams) {
  const std::size_t num_sequences = names.firsts.size();
  check(names.offsets, num_sequences, names.bytes.size());
  for (const DigestedStream& one : streams) {
    if (one.sample_bytes == 0) throw std::invalid_argument("a sample must have bytes");
    check(one.offsets, num_sequences, one.values.size() / one.sample_bytes);
  }
  std::uint64_t sum = 0;
  for (std::size_t i = 0; i < num_sequences; ++i) {
    Blake2b digest(kDigestBytes);
    add(digest, part(names.bytes, names.offsets, i, 1));
    digest.update_le64(sizeof(std::uint64_t));
    digest.update_le64(names.firsts[i]);
    for (const DigestedStream& one : streams) {
      add(digest, one.name);
      const std::int64_t samples = one.offsets[i + 1] - one.offsets[i];
      add(digest, one.before + std::to_string(samples) + one.after);
      add(digest, part(one.values, one.offsets, i, one.sample_bytes));
    }
    sum += digest.finish();
  }
  return sum;
}

}  // namespace sweephand
