// Gradients and weights are the same on any number of threads, by the formulas of each element.
#include "base/element.hpp"
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

// Element by element, but for the norm.
Findings findings_of(Bytes& bytes, std::size_t size, ElementType type, double scale) {
  return visit_float(type, [&]<class Element>(Element) {
    using Value = typename Element::Value;
    auto* const elements = tensor(bytes, size, type).as<typename Element::Stored>();
    Findings found{.num_nan = {0}, .num_inf = {0}, .num_small = {0}};
    for (auto& element : std::span(elements, size)) {
      const Value before = Element::load(element);
      element = Element::store(before / static_cast<Value>(scale));
      const Value after = Element::load(element);
      found.num_nan[0] += std::isnan(after) ? 1 : 0;
      found.num_inf[0] += std::isinf(after) ? 1 : 0;
      found.num_small[0] += std::abs(before) < Float16::kLeastNormal || after == 0 ? 1 : 0;
    }
    return found;
  });
}

void check_unscaling(const Bytes& values, std::size_t size, ElementType type, double scale) {
  Bytes model = values;
  Bytes one = values;
  Bytes several = values;
  const std::array of_one{tensor(one, size, type)};
  const std::array of_several{tensor(several, size, type)};
  const UnscaleOptions by_one{.scale = scale};
  const UnscaleOptions by_several{.scale = scale, .num_threads = 3};
  CHECK(same(examine(of_one, by_one), examine(of_several, by_several)));
  CHECK(one == values && several == values);
  const Findings found = unscale(of_one, by_one);
  CHECK(same(found, unscale(of_several, by_several)));
  Findings expected = findings_of(model, size, type, scale);
  expected.norms = found.norms;
  CHECK(same(found, expected));
  CHECK(one == several && one == model);
}

void unscaling_is_division_of_every_element_on_any_number_of_threads() {
  for (const ElementType type : kTypes) {
    for (const std::size_t size : kSizes) {
      for (const double scale : {1.0, 1024.0, 3.0, 0.25, 0x1p127}) {
        check_unscaling(any_values(type, size), size, type, scale);
        check_unscaling(finite_values(type, size), size, type, scale);
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
  sweephand::unscaling_is_division_of_every_element_on_any_number_of_threads();
  sweephand::arrays_of_halves_convert_as_each_half_does();
  sweephand::an_update_does_not_depend_on_the_number_of_threads();
}
