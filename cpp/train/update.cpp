#include "train/update.hpp"

#include "base/half.hpp"
#include "train/element.hpp"
#include "train/tensor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

namespace sweephand {
namespace {

constexpr std::size_t kChunk = 2048;  // elements whose gradients are converted at a time

// Where a rule moves a weight to, per unit of rate: the constants in the type of the weights.
template <class T, class Rule>
struct Direction;

template <class T>
struct Direction<T, Sgd> {
  explicit Direction(const Sgd& /*rule*/) {}

  [[gnu::always_inline]] T operator()(T gradient, T& /*first*/, T& /*second*/) const {
    return gradient;
  }
};

template <class T>
struct Direction<T, Momentum> {
  T momentum;
  T gain;

  explicit Direction(const Momentum& rule)
      : momentum(static_cast<T>(rule.momentum)), gain(static_cast<T>(rule.gain)) {}

  [[gnu::always_inline]] T operator()(T gradient, T& velocity, T& /*second*/) const {
    velocity = momentum * velocity + gain * gradient;
    return velocity;
  }
};

template <class T>
struct Direction<T, Nesterov> {
  T momentum;
  T gain;

  explicit Direction(const Nesterov& rule)
      : momentum(static_cast<T>(rule.momentum)), gain(static_cast<T>(rule.gain)) {}

  [[gnu::always_inline]] T operator()(T gradient, T& velocity, T& /*second*/) const {
    velocity = momentum * velocity + gain * gradient;
    return momentum * velocity + gain * gradient;
  }
};

template <class T>
struct Direction<T, Adam> {
  T beta_1;
  T beta_2;
  T gain_1;
  T gain_2;
  T epsilon;
  T root_scale;

  explicit Direction(const Adam& rule)
      : beta_1(static_cast<T>(rule.beta_1)),
        beta_2(static_cast<T>(rule.beta_2)),
        gain_1(static_cast<T>(1.0 - rule.beta_1)),
        gain_2(static_cast<T>(1.0 - rule.beta_2)),
        epsilon(static_cast<T>(rule.epsilon)),
        root_scale(static_cast<T>(rule.root_scale)) {}

  [[gnu::always_inline]] T operator()(T gradient, T& first, T& second) const {
    first = beta_1 * first + gain_1 * gradient;
    second = beta_2 * second + gain_2 * gradient * gradient;
    return first / (std::sqrt(second) * root_scale + epsilon);
  }
};

// A run of weights. A rule that needs no moments does not look at them.
template <class T>
struct Run {
  T* weights;
  T* first;
  T* second;
  const T* gradient;
  std::size_t size;
};

template <class T, class Rule>
[[gnu::always_inline]] inline void move_run(const Run<T>& run, const Step& step,
                                            const Direction<T, Rule>& direction) {
  T* const __restrict weights = run.weights;
  T* const __restrict first = run.first;
  T* const __restrict second = run.second;
  const T* const __restrict gradient = run.gradient;
  const auto factor = static_cast<T>(step.factor);
  const auto decay = static_cast<T>(step.decay);
  const auto rate = static_cast<T>(step.rate);
  for (std::size_t i = 0; i < run.size; ++i) {
    const T moved = direction(gradient[i] * factor, first[i], second[i]);
    weights[i] = decay * weights[i] - rate * moved;
  }
}

template <class T, class Rule>
void move_portable(const Run<T>& run, const Step& step, const Direction<T, Rule>& direction) {
  move_run(run, step, direction);
}

#ifdef __x86_64__
// The same loop, made of wider instructions by the compiler.
template <class T, class Rule>
[[gnu::target("avx2")]] void move_avx2(const Run<T>& run, const Step& step,
                                       const Direction<T, Rule>& direction) {
  move_run(run, step, direction);
}
#endif

template <class T, class Rule>
void move(const Run<T>& run, const Step& step, const Direction<T, Rule>& direction) {
#ifdef __x86_64__
  if (__builtin_cpu_supports("avx2")) return move_avx2(run, step, direction);
#endif
  move_portable(run, step, direction);
}

// The elements of `run` as T: themselves if they are, else converted into `buffer`.
template <class T>
const T* read(const Tensor& run, std::span<T> buffer) {
  return with_element(run.type, [&]<class Element>(Element /*element*/) -> const T* {
    using Stored = Element::Stored;
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

void write(std::span<const float> values, const Tensor& run) {
  if (run.type == FloatType::kFloat16) {
    round_to_float16(values, {run.as<std::uint16_t>(), run.size});
  } else {
    std::ranges::transform(values, run.as<std::uint16_t>(), float_to_bfloat16);
  }
}

template <class T, class Rule>
void update_piece(const Slot& slot, const TensorPiece& piece, const Step& step,
                  const Rule& rule) {
  const Direction<T, Rule> direction(rule);
  std::array<T, kChunk> buffer;
  const std::size_t end = piece.begin + piece.size;
  for (std::size_t begin = piece.begin; begin < end; begin += kChunk) {
    const std::size_t size = std::min(kChunk, end - begin);
    const Run<T> run{.weights = slot.weights.as<T>() + begin,
                     .first = slot.first_moment.as<T>() + begin,
                     .second = slot.second_moment.as<T>() + begin,
                     .gradient = read<T>(slot.gradient.part(begin, size), buffer),
                     .size = size};
    move(run, step, direction);
    if constexpr (std::is_same_v<T, float>) {
      if (slot.parameter.data != slot.weights.data) {
        write({run.weights, size}, slot.parameter.part(begin, size));
      }
    }
  }
}

template <class Rule>
void update_all(std::span<const Slot> slots, const Step& step, const Rule& rule) {
  std::vector<Tensor> weights;
  weights.reserve(slots.size());
  for (const Slot& slot : slots) weights.push_back(slot.weights);
  const std::vector<TensorPiece> pieces = cut(weights);
  share_out(pieces.size(), step.num_threads, [&](std::size_t i) {
    const Slot& slot = slots[pieces[i].tensor];
    if (slot.weights.type == FloatType::kFloat64) {
      update_piece<double>(slot, pieces[i], step, rule);
    } else {
      update_piece<float>(slot, pieces[i], step, rule);
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

void update(std::span<const Slot> slots, const Step& step, const Sgd& rule) {
  update_all(slots, step, rule);
}

void update(std::span<const Slot> slots, const Step& step, const Momentum& rule) {
  update_all(slots, step, rule);
}

void update(std::span<const Slot> slots, const Step& step, const Nesterov& rule) {
  update_all(slots, step, rule);
}

void update(std::span<const Slot> slots, const Step& step, const Adam& rule) {
  update_all(slots, step, rule);
}

}  // namespace sweephand
