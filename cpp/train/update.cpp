#include "train/update.hpp"

#include "base/cpu.hpp"
#include "base/element.hpp"
#include "base/half.hpp"

#include <cstdint>
#include <type_traits>

namespace sweephand {
namespace {

constexpr std::size_t kChunk = 2048;  // elements whose gradients are converted at a time

// A run of weights. A rule without moments does not read the moments.
template <class T>
struct Run {
  T* weights;
  T* first;
  T* second;
  const T* gradient;
  std::size_t size;
};

// Moves `size` elements from `begin` on.
template <class T, class Formula>
[[gnu::always_inline]] inline void move_some(const Run<T>& run, std::size_t begin,
                                             std::size_t size, const UpdateOptions& options,
                                             const Formula& formula) {
  T* const __restrict weights = run.weights + begin;
  T* const __restrict first = run.first + begin;
  T* const __restrict second = run.second + begin;
  const T* const __restrict gradient = run.gradient + begin;
  const auto factor = static_cast<T>(options.factor);
  const auto decay = static_cast<T>(options.decay);
  const auto rate = static_cast<T>(options.rate);
  for (std::size_t i = 0; i < size; ++i) {
    const T moved = formula(gradient[i] * factor, first[i], second[i]);
    weights[i] = decay * weights[i] - rate * moved;
  }
}

template <class T, class Formula>
[[gnu::always_inline]] inline void move_run(const Run<T>& run, const UpdateOptions& options,
                                            const Formula& formula) {
  constexpr std::size_t kLine = 64 / sizeof(T);
  std::size_t begin = 0;
  for (; begin + kLine <= run.size; begin += kLine) {
    prefetch_ahead(run.weights + begin);
    prefetch_ahead(run.first + begin);
    prefetch_ahead(run.second + begin);
    prefetch_ahead(run.gradient + begin);
    move_some(run, begin, kLine, options, formula);
  }
  move_some(run, begin, run.size - begin, options, formula);
}

template <class T, class Formula>
void move_portable(const Run<T>& run, const UpdateOptions& options, const Formula& formula) {
  move_run(run, options, formula);
}

#ifdef __x86_64__
// The same loop, made of wider instructions by the compiler.
template <class T, class Formula>
[[gnu::target("avx2")]] void move_avx2(const Run<T>& run, const UpdateOptions& options,
                                       const Formula& formula) {
  move_run(run, options, formula);
}
#endif

template <class T, class Formula>
void move(const Run<T>& run, const UpdateOptions& options, const Formula& formula) {
#ifdef __x86_64__
  if (cpu().avx2) return move_avx2(run, options, formula);
#endif
  move_portable(run, options, formula);
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
      std::ranges::transform(elements, buffer.begin(), [](Stored stored) {
        return static_cast<T>(Element::load(stored));
      });
    }
    return buffer.data();
  });
}

// Sets weights to their parameters of 16 bits where these were written from outside: an update
// leaves the rounded weights there.
void take_over(const Tensor& run, std::span<float> weights) {
  const std::span<const std::uint16_t> held(run.as<std::uint16_t>(), run.size);
  std::array<std::uint16_t, kChunk> buffer;
  const std::span<std::uint16_t> image = std::span(buffer).first(run.size);
  const bool is_float16 = run.type == ElementType::kFloat16;
  if (is_float16) {
    round_to_float16(weights, image);
  } else {
    std::ranges::transform(weights, image.begin(), float_to_bfloat16);
  }
  if (std::ranges::equal(held, image)) return;
  for (std::size_t i = 0; i < run.size; ++i) {
    if (held[i] == image[i]) continue;
    weights[i] = is_float16 ? float16_to_float(held[i]) : bfloat16_to_float(held[i]);
  }
}

void write(std::span<const float> values, const Tensor& run) {
  if (run.type == ElementType::kFloat16) {
    round_to_float16(values, {run.as<std::uint16_t>(), run.size});
  } else {
    std::ranges::transform(values, run.as<std::uint16_t>(), float_to_bfloat16);
  }
}

template <class T, class Formula>
void update_piece(const Slot& slot, const TensorPiece& piece, const UpdateOptions& options,
                  const Formula& formula) {
  std::array<T, kChunk> buffer;
  const std::size_t end = piece.begin + piece.size;
  for (std::size_t begin = piece.begin; begin < end; begin += kChunk) {
    const std::size_t size = std::min(kChunk, end - begin);
    if constexpr (std::is_same_v<T, float>) {
      if (slot.parameter.data != slot.weights.data) {
        take_over(slot.parameter.part(begin, size), {slot.weights.as<T>() + begin, size});
      }
    }
    const Run<T> run{.weights = slot.weights.as<T>() + begin,
                     .first = slot.first_moment.as<T>() + begin,
                     .second = slot.second_moment.as<T>() + begin,
                     .gradient = read<T>(slot.gradient.part(begin, size), buffer),
                     .size = size};
    move(run, options, formula);
    if constexpr (std::is_same_v<T, float>) {
      if (slot.parameter.data != slot.weights.data) {
        write({run.weights, size}, slot.parameter.part(begin, size));
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
