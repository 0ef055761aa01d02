#include "train/update.hpp"

#include "base/element.hpp"
#include "base/half.hpp"

#include <bit>
#include <cstdint>
#include <type_traits>

namespace sweephand {
namespace {

constexpr std::size_t kChunk = 1024;  // elements whose gradients are converted at a time

// Where weights are: in an array of their own.
template <class T>
struct Whole {
  T* const __restrict values;

  T load(std::size_t i) const noexcept { return values[i]; }
  void store(std::size_t i, T value) const noexcept { values[i] = value; }
  void prefetch(std::size_t i) const noexcept { prefetch_ahead(values + i); }
};

// Or as the masters of bfloat16 parameters: the bits of a float32 are the parameter, less one
// if the first of the lower bits raised it, and the lower bits. They are rounded half up, which
// the lower bits undo; rounding to even they could not.
struct Halves {
  std::uint16_t* const __restrict upper;
  std::uint16_t* const __restrict lower;

  float load(std::size_t i) const noexcept {
    const std::uint32_t raised = std::uint32_t{upper[i]} - (lower[i] >> 15U);
    return std::bit_cast<float>((raised << 16U) | lower[i]);
  }
  void store(std::size_t i, float value) const noexcept {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const bool is_nan = (bits & 0x7fffffffU) > 0x7f800000U;  // must not be rounded to 0
    upper[i] = static_cast<std::uint16_t>(is_nan ? 0x7fc0U : (bits + 0x8000U) >> 16U);
    lower[i] = static_cast<std::uint16_t>(bits);
  }
  void prefetch(std::size_t i) const noexcept {
    prefetch_ahead(upper + i);
    prefetch_ahead(lower + i);
  }
};

// A run of weights. A rule without moments does not read the moments.
template <class T, class Weights>
struct Run {
  Weights weights;
  T* first;
  T* second;
  const T* gradient;
  std::size_t size;
};

// Moves `size` elements from `begin` on.
template <class T, class Weights, class Formula>
[[gnu::always_inline]] inline void move_some(const Run<T, Weights>& run, std::size_t begin,
                                             std::size_t size, const UpdateOptions& options,
                                             const Formula& formula) {
  const Weights weights = run.weights;
  T* const __restrict first = run.first + begin;
  T* const __restrict second = run.second + begin;
  const T* const __restrict gradient = run.gradient + begin;
  const auto factor = static_cast<T>(options.factor);
  const auto decay = static_cast<T>(options.decay);
  const auto rate = static_cast<T>(options.rate);
  // Nothing that a turn writes is read by another: without this all is compared in each line.
#ifndef __clang__
#pragma GCC ivdep
#endif
  for (std::size_t i = 0; i < size; ++i) {
    const T moved = formula(gradient[i] * factor, first[i], second[i]);
    weights.store(begin + i, decay * weights.load(begin + i) - rate * moved);
  }
}

template <class T, class Weights, class Formula>
[[gnu::always_inline]] inline void move_run(const Run<T, Weights>& run,
                                            const UpdateOptions& options,
                                            const Formula& formula) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  std::size_t begin = 0;
  for (; begin + kLine <= run.size; begin += kLine) {
    run.weights.prefetch(begin);
    prefetch_ahead(run.first + begin);
    prefetch_ahead(run.second + begin);
    prefetch_ahead(run.gradient + begin);
    move_some(run, begin, kLine, options, formula);
  }
  move_some(run, begin, run.size - begin, options, formula);
}

// The elements of `run` as T: themselves if they are, else converted into `buffer`.
template <class T>
const T* read(const Tensor& run, std::span<T> buffer) {
  return visit_float(run.type, [&]<class Element>(Element /*element*/) -> const T* {
    using Stored = typename Element::Stored;
    const std::span<const Stored> elements(run.as<Stored>(), run.size);
    if constexpr (std::is_same_v<Stored, T>) return elements.data();
    if constexpr (std::is_same_v<Element, Float16> && std::is_same_v<T, float>) {
      widen_float16(elements, buffer.first(run.size));
    } else {
      run_wide([&]() __attribute__((always_inline)) {
        for (std::size_t i = 0; i < run.size; ++i) {
          buffer[i] = static_cast<T>(Element::load(elements[i]));
        }
      });
    }
    return buffer.data();
  });
}

// Sets weights to their parameters of float16 where these were written from outside: an update
// leaves the rounded weights there.
void take_over(const Tensor& run, std::span<float> weights) {
  const std::span<const std::uint16_t> held(run.as<std::uint16_t>(), run.size);
  std::array<std::uint16_t, kChunk> buffer;
  const std::span<std::uint16_t> image = std::span(buffer).first(run.size);
  round_to_float16(weights, image);
  if (std::ranges::equal(held, image)) return;
  for (std::size_t i = 0; i < run.size; ++i) {
    if (held[i] != image[i]) weights[i] = float16_to_float(held[i]);
  }
}

template <class T, class Formula>
void update_piece(const Slot& slot, const TensorPiece& piece, const UpdateOptions& options,
                  const Formula& formula) {
  std::array<T, kChunk> buffer;
  const std::size_t end = piece.begin + piece.size;
  for (std::size_t begin = piece.begin; begin < end; begin += kChunk) {
    const std::size_t size = std::min(kChunk, end - begin);
    const T* const gradient = read<T>(slot.gradient.part(begin, size), buffer);
    const auto move = [&](auto weights) {
      const Run<T, decltype(weights)> run{.weights = weights,
                                          .first = slot.first_moment.as<T>() + begin,
                                          .second = slot.second_moment.as<T>() + begin,
                                          .gradient = gradient,
                                          .size = size};
      run_wide([&]() __attribute__((always_inline)) { move_run(run, options, formula); });
    };
    if constexpr (std::is_same_v<T, float>) {
      if (slot.weights.type == ElementType::kBFloat16) {
        move(Halves{slot.parameter.as<std::uint16_t>() + begin,
                    slot.weights.as<std::uint16_t>() + begin});
        continue;
      }
    }
    T* const weights = slot.weights.as<T>() + begin;
    const bool has_image = slot.parameter.data != slot.weights.data;
    if constexpr (std::is_same_v<T, float>) {
      if (has_image) take_over(slot.parameter.part(begin, size), {weights, size});
    }
    move(Whole<T>{weights});
    if constexpr (std::is_same_v<T, float>) {
      if (has_image) {
        round_to_float16({weights, size}, {slot.parameter.as<std::uint16_t>() + begin, size});
      }
    }
  }
}

template <class OneRule>
void update_all(std::span<const Slot> slots, const UpdateOptions& options,
                const OneRule& rule) {
  std::vector<Tensor> weights;
  weights.reserve(slots.size());
  for (const Slot& slot : slots) weights.push_back(slot.weights);
  const std::vector<TensorPiece> pieces = cut(weights);
  share_out(pieces, options.num_threads, [&](const TensorPiece& piece, std::size_t /*i*/) {
    const Slot& slot = slots[piece.tensor];
    if (slot.weights.type == ElementType::kFloat64) {
      update_piece<double>(slot, piece, options, rule.template on<double>());
    } else {
      update_piece<float>(slot, piece, options, rule.template on<float>());
    }
  });
}

}  // namespace

std::vector<Slot> zip_slots(std::span<const Tensor> weights, std::span<const Tensor> parameters,
                            std::span<const Tensor> gradients,
                            std::span<const Tensor> first_moments,
                            std::span<const Tensor> second_moments) {
  std::vector<Slot> slots;
  slots.reserve(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    slots.push_back({.weights = weights[i],
                     .parameter = parameters[i],
                     .gradient = gradients[i],
                     .first_moment = first_moments[i],
                     .second_moment = second_moments[i]});
  }
  return slots;
}

void update(std::span<const Slot> slots, const UpdateOptions& options, const Rule& rule) {
  std::visit([&](const auto& one) { update_all(slots, options, one); },
             static_cast<const AnyRule&>(rule));
}

}  // namespace sweephand
