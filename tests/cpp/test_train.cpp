// Plain code and the machine's own instructions give the same bits, on any number of threads.
#include "base/half.hpp"
#include "base/mix.hpp"
#include "check.hpp"
#include "no_threads.hpp"
#include "train/tensor.hpp"
#include "train/unscale.hpp"
#include "train/update.hpp"

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace sweephand {
namespace {

constexpr std::array kTypes{ElementType::kFloat16, ElementType::kBFloat16,
                            ElementType::kFloat32, ElementType::kFloat64};
constexpr std::array<std::size_t, 8> kSizes{0, 1, 15, 16, 64, 1000, 65'536, 65'537};

using Bytes = std::vector<std::uint64_t>;

Bytes random_bytes(std::size_t bytes, std::uint64_t seed) {
  Bytes words((bytes + 7) / 8);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = mix64(seed + i * kGolden);
  return words;
}

// Any bits: zeros, subnormals, infinities and NaN among them.
Bytes any_values(ElementType type, std::size_t size) {
  Bytes words = random_bytes(size * element_bytes(type), size);
  if (words.size() > 8) words[5] = 0;
  return words;
}

// The upper bit of every exponent cleared: ordinary numbers below 2.
Bytes finite_values(ElementType type, std::size_t size) {
  Bytes words = any_values(type, size);
  std::uint64_t upper_exponent_bits = 0x4000'0000'0000'0000;
  if (element_bytes(type) == 4) upper_exponent_bits = 0x4000'0000'4000'0000;
  if (element_bytes(type) == 2) upper_exponent_bits = 0x4000'4000'4000'4000;
  for (std::uint64_t& word : words) word &= ~upper_exponent_bits;
  return words;
}

Tensor tensor(Bytes& bytes, std::size_t size, ElementType type) {
  return {.data = bytes.data(), .size = size, .type = type};
}

// All but the payload of a NaN.
bool same_bits(const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) && std::isnan(b[i])) continue;
    if (std::bit_cast<std::uint64_t>(a[i]) != std::bit_cast<std::uint64_t>(b[i])) return false;
  }
  return a.size() == b.size();
}

bool same(const Findings& a, const Findings& b) {
  return a.num_nan == b.num_nan && a.num_inf == b.num_inf && a.num_small == b.num_small &&
         same_bits(a.norms, b.norms);
}

void check_every_way(const Bytes& values, std::size_t size, ElementType type, double scale) {
  Bytes plain = values;
  Bytes fast = values;
  const std::array of_plain{tensor(plain, size, type)};
  const std::array of_fast{tensor(fast, size, type)};
  const UnscaleOptions with_plain{.scale = scale, .portable = true};
  const UnscaleOptions with_fast{.scale = scale, .num_threads = 3};
  CHECK(same(examine(of_plain, with_plain), examine(of_fast, with_fast)));
  CHECK(plain == values && fast == values);
  CHECK(same(unscale(of_plain, with_plain), unscale(of_fast, with_fast)));
  CHECK(plain == fast);
}

void every_way_of_unscaling_gives_the_same_bits() {
  for (const ElementType type : kTypes) {
    for (const std::size_t size : kSizes) {
      for (const double scale : {1.0, 1024.0, 3.0, 0.25, 0x1p-140, 0x1p127}) {
        check_every_way(any_values(type, size), size, type, scale);
        check_every_way(finite_values(type, size), size, type, scale);
      }
    }
  }
}

void arrays_of_halves_convert_as_each_half_does() {
  std::vector<std::uint16_t> halves(65'536 + 3);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  widen_float16(halves, floats);
  for (std::size_t i = 0; i < halves.size(); ++i) {
    CHECK(std::bit_cast<std::uint32_t>(floats[i]) ==
          std::bit_cast<std::uint32_t>(float16_to_float(halves[i])));
  }

  Bytes words = random_bytes(1 << 22, 7);
  std::vector<float> any(1 << 20);
  for (std::size_t i = 0; i < any.size(); ++i) {
    any[i] = std::bit_cast<float>(static_cast<std::uint32_t>(words[i / 2] >> (32 * (i % 2))));
  }
  std::vector<std::uint16_t> rounded(any.size());
  round_to_float16(any, rounded);
  for (std::size_t i = 0; i < any.size(); ++i) CHECK(rounded[i] == float_to_float16(any[i]));
}

std::vector<float> updated(std::size_t size, std::size_t num_threads) {
  Bytes gradient = finite_values(ElementType::kFloat16, size);
  std::vector<float> weights(size, 1.0F);
  std::vector<float> first(size, 0.5F);
  std::vector<float> second(size, 0.25F);
  const auto floats = [size](std::vector<float>& values) {
    return Tensor{.data = values.data(), .size = size, .type = ElementType::kFloat32};
  };
  const std::array slots{Slot{.weights = floats(weights),
                              .parameter = floats(weights),
                              .gradient = tensor(gradient, size, ElementType::kFloat16),
                              .first_moment = floats(first),
                              .second_moment = floats(second)}};
  const UpdateOptions options{
      .factor = 0.1, .decay = 0.99, .rate = 0.01, .num_threads = num_threads};
  update(slots, options, Adam{.beta_1 = 0.9, .beta_2 = 0.99, .epsilon = 1e-8, .root_scale = 2});
  return weights;
}

void an_update_does_not_depend_on_the_number_of_threads() {
  const std::size_t size = 3 * kPieceElements + 5;
  CHECK(updated(size, 1) == updated(size, 2));
  CHECK(updated(size, 1) == updated(size, 5));
  const NoThreads none;
  CHECK(updated(size, 1) == updated(size, 5));
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::every_way_of_unscaling_gives_the_same_bits();
  sweephand::arrays_of_halves_convert_as_each_half_does();
  sweephand::an_update_does_not_depend_on_the_number_of_threads();
}
