#include "index/packed_integers.hpp"

#include "base/little_endian.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

constexpr std::size_t kHeadBytes = 24;
constexpr unsigned kMostWidth = 8;

unsigned width_of(std::uint64_t most) noexcept {
  return (static_cast<unsigned>(std::bit_width(most)) + 7) / 8;
}

// The same number in the other byte order, if that is this processor's.
std::uint64_t to_little_endian(std::uint64_t value) noexcept {
  return load_le64(std::as_bytes(std::span(&value, 1)).first<8>());
}

// The concatenated bytes of values.
template <unsigned Width>
void unpack(const std::byte* from, std::span<std::uint64_t> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint64_t word = 0;
    std::memcpy(&word, from + i * Width, Width);
    out[i] = to_little_endian(word);
  }
}

using Unpack = void (*)(const std::byte*, std::span<std::uint64_t>);
constexpr std::array<Unpack, kMostWidth + 1> kUnpack = {&unpack<0>, &unpack<1>, &unpack<2>,
                                                        &unpack<3>, &unpack<4>, &unpack<5>,
                                                        &unpack<6>, &unpack<7>, &unpack<8>};

std::uint64_t num_blocks(std::uint64_t count) noexcept {
  return count / PackedIntegers::kBlock + (count % PackedIntegers::kBlock != 0 ? 1 : 0);
}

}  // namespace

PackedIntegers::PackedIntegers(std::span<const std::byte> bytes, std::uint64_t count,
                               std::shared_ptr<const void> owner)
    : count_(count), given_(bytes), owner_(std::move(owner)) {
  const std::uint64_t blocks = num_blocks(count);
  if (blocks > bytes.size() / kHeadBytes)
    throw std::invalid_argument("packed integers end before their heads do");
  const std::uint64_t size = bytes.size() - blocks * kHeadBytes;
  for (std::uint64_t block = 0; block < blocks; ++block) {
    const Head one = head(block);
    const std::uint64_t values = std::min<std::uint64_t>(kBlock, count - block * kBlock);
    if (one.width() > kMostWidth || one.place() > size ||
        values * one.width() > size - one.place())
      throw std::invalid_argument("packed integers end before block " + std::to_string(block) +
                                  " does");
  }
}

PackedIntegers::Head PackedIntegers::head(std::uint64_t block) const noexcept {
  if (!owner_) return heads_[block];
  const std::span bytes = given_.subspan(block * kHeadBytes, kHeadBytes);
  return {.first = load_le64(bytes.subspan<0, 8>()),
          .base = load_le64(bytes.subspan<8, 8>()),
          .where = load_le64(bytes.subspan<16, 8>())};
}

std::span<const std::byte> PackedIntegers::packed() const noexcept {
  return owner_ ? given_.subspan(num_blocks(count_) * kHeadBytes)
                : std::span<const std::byte>(packed_);
}

// Packs values after the present bytes, in whichever of two ways takes fewer bytes.
PackedIntegers::Head PackedIntegers::add_block(std::span<const std::uint64_t> values,
                                               std::vector<std::byte>& packed) {
  const auto [least, most] = std::ranges::minmax(values);
  std::uint64_t least_step = 0;
  std::uint64_t most_step = 0;
  bool is_any = false;
  for (std::size_t i = 1; i < values.size(); ++i) {
    const std::uint64_t step = values[i] - values[i - 1];
    least_step = is_any ? std::min(least_step, step) : step;
    most_step = std::max(most_step, step);
    is_any = true;
  }
  const bool rises = width_of(most_step - least_step) < width_of(most - least);
  const unsigned width = rises ? width_of(most_step - least_step) : width_of(most - least);
  const std::uint64_t base = rises ? least_step : least;
  const std::size_t place = packed.size();
  packed.resize(place + values.size() * width);
  std::byte* to = packed.data() + place;
  std::uint64_t before = values[0] - base;  // so that the first step is `base`, too
  for (const std::uint64_t value : values) {
    const std::uint64_t rest = to_little_endian(value - base - (rises ? before : 0));
    std::copy_n(reinterpret_cast<const std::byte*>(&rest), width, to);  // `to` may be null
    to += width;
    before = value;
  }
  return {.first = values[0],
          .base = base,
          .where = std::uint64_t{place} << 8U | (rises ? 16U : 0U) | width};
}

void PackedIntegers::close_block() {
  heads_.push_back(add_block(waiting_, packed_));
  waiting_.clear();
}

void PackedIntegers::append(const PackedIntegers& more, std::uint64_t base) {
  Values values{};
  for (std::uint64_t block = 0; block < num_blocks(more.count_); ++block) {
    const auto count = std::min<std::uint64_t>(kBlock, more.count_ - block * kBlock);
    more.read_block(block, 0, count, values);
    for (std::size_t i = 0; i < count; ++i) push_back(values[i] + base);
  }
}

// Values [first, end) of a block at their places; if it ascends, those before them, too.
void PackedIntegers::read_block(std::uint64_t block, std::size_t first, std::size_t end,
                                Values& out) const {
  if (!owner_ && block == heads_.size()) {
    std::copy_n(waiting_.begin(), end, out.begin());
    return;
  }
  const Head one = head(block);
  const std::size_t begin = one.rises() ? 0 : first;
  const std::span values = std::span(out).subspan(begin, end - begin);
  kUnpack[one.width()](packed().data() + one.place() + begin * one.width(), values);
  if (one.rises()) {
    std::uint64_t last = one.first - one.base;
    for (std::uint64_t& value : values) value = last += one.base + value;
  } else {
    for (std::uint64_t& value : values) value += one.base;
  }
}

std::uint64_t PackedIntegers::operator[](std::uint64_t i) const {
  std::uint64_t value = 0;
  read(i, std::span(&value, 1));
  return value;
}

void PackedIntegers::Walk::load(std::uint64_t block) {
  const std::uint64_t left = packed_.size() - block * kBlock;
  packed_.read_block(block, 0, std::min<std::uint64_t>(kBlock, left), values_);
  block_ = block;
}

template <class T>
void PackedIntegers::read(std::uint64_t first, std::span<T> out) const {
  // An index may name places that are not there.
  if (first > count_ || out.size() > count_ - first) {
    throw std::out_of_range("packed integers end before those that are read");
  }
  Values values;  // not cleared, as few of them may be wanted
  while (!out.empty()) {
    const std::uint64_t skipped = first % kBlock;
    const auto count = std::min<std::uint64_t>(kBlock - skipped, out.size());
    read_block(first / kBlock, skipped, skipped + count, values);
    std::transform(values.begin() + static_cast<std::ptrdiff_t>(skipped),
                   values.begin() + static_cast<std::ptrdiff_t>(skipped + count), out.begin(),
                   [](std::uint64_t value) { return static_cast<T>(value); });
    out = out.subspan(count);
    first += count;
  }
}

template void PackedIntegers::read(std::uint64_t, std::span<std::uint8_t>) const;
template void PackedIntegers::read(std::uint64_t, std::span<std::uint16_t>) const;
template void PackedIntegers::read(std::uint64_t, std::span<std::uint32_t>) const;
template void PackedIntegers::read(std::uint64_t, std::span<std::uint64_t>) const;

std::vector<std::uint8_t> PackedIntegers::bytes() const {
  if (owner_) {
    const auto* const begin = reinterpret_cast<const std::uint8_t*>(given_.data());
    return {begin, begin + given_.size()};
  }
  std::vector<std::byte> last;
  Head last_head;
  if (!waiting_.empty()) {
    last_head = add_block(waiting_, last);
    last_head.where += std::uint64_t{packed_.size()} << 8U;
  }
  std::vector<std::uint8_t> result(num_blocks(count_) * kHeadBytes + packed_.size() +
                                   last.size());
  std::uint8_t* to = result.data();
  const auto put = [&to](const void* from, std::size_t size) {
    if (size != 0) std::memcpy(to, from, size);
    to += size;
  };
  const auto put_head = [&put](const Head& head) {
    for (const std::uint64_t word : {head.first, head.base, head.where}) {
      const std::uint64_t little = to_little_endian(word);
      put(&little, sizeof(little));
    }
  };
  for (const Head& one : heads_) put_head(one);
  if (!waiting_.empty()) put_head(last_head);
  put(packed_.data(), packed_.size());
  put(last.data(), last.size());
  return result;
}

std::shared_ptr<Sizes> unpack_sizes(const PackedIntegers& packed) {
  PackedIntegers::Walk sizes(packed);
  const std::uint64_t first = packed.size() == 0 ? 0 : sizes[0];
  std::uint64_t equal = 0;
  while (equal < packed.size() && sizes[equal] == first) ++equal;
  if (equal == packed.size())
    return std::make_shared<CommonSize>(static_cast<std::uint32_t>(first));
  std::vector<std::uint32_t> unpacked(packed.size());
  packed.read(0, std::span(unpacked));
  return std::make_shared<StoredSizes>(std::move(unpacked));
}

}  // namespace sweephand
