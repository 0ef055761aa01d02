// The rules of optimizers: the move of a weight, and the state that each keeps.
//
// A rule is a struct of its constants, with their names and its own, and a line in AnyRule
// below: from these its binding is made. on<T>() is its formula for weights of type T: a
// function of the gradient g and of two moments, which it changes, that returns how far the
// weight moves per unit of rate. A rule that needs fewer moments does not touch the others.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <variant>

namespace sweephand {

// g
struct Sgd {
  static constexpr auto kName = "Sgd";
  static constexpr auto kConstants = std::array<const char*, 0>{};
  template <class T>
  auto on() const {
    return [](T gradient, T&, T&) __attribute__((always_inline)) { return gradient; };
  }
};

// v = momentum * v + gain * g;  v
struct Momentum {
  static constexpr auto kName = "Momentum";
  static constexpr auto kConstants = std::array{"momentum", "gain"};
  double momentum;
  double gain;

  template <class T>
  auto on() const {
    return [momentum = static_cast<T>(momentum), gain = static_cast<T>(gain)](
               T gradient, T& velocity, T&) __attribute__((always_inline)) {
      velocity = momentum * velocity + gain * gradient;
      return velocity;
    };
  }
};

// v as above;  momentum * v + gain * g
struct Nesterov {
  static constexpr auto kName = "Nesterov";
  static constexpr auto kConstants = std::array{"momentum", "gain"};
  double momentum;
  double gain;

  template <class T>
  auto on() const {
    return [momentum = static_cast<T>(momentum), gain = static_cast<T>(gain)](
               T gradient, T& velocity, T&) __attribute__((always_inline)) {
      velocity = momentum * velocity + gain * gradient;
      return momentum * velocity + gain * gradient;
    };
  }
};

// c = beta_1 * m + (1 - beta_1) * g;  m = beta_2 * m + (1 - beta_2) * g;  sign of c
struct Lion {
  static constexpr auto kName = "Lion";
  static constexpr auto kConstants = std::array{"beta_1", "beta_2"};
  double beta_1;
  double beta_2;

  template <class T>
  auto on() const {
    return [beta_1 = static_cast<T>(beta_1), gain_1 = static_cast<T>(1.0 - beta_1),
            beta_2 = static_cast<T>(beta_2), gain_2 = static_cast<T>(1.0 - beta_2)](
               T gradient, T& mean, T&) __attribute__((always_inline)) {
      const T toward = beta_1 * mean + gain_1 * gradient;
      mean = beta_2 * mean + gain_2 * gradient;
      if (toward > 0) return T{1};
      return toward < 0 ? T{-1} : toward;  // 0 and NaN stay what they are
    };
  }
};

// m = beta_1 * m + (1 - beta_1) * g;  v = beta_2 * v + (1 - beta_2) * g * g
// m / (sqrt(v) * root_scale + epsilon)
struct Adam {
  static constexpr auto kName = "Adam";
  static constexpr auto kConstants = std::array{"beta_1", "beta_2", "epsilon", "root_scale"};
  double beta_1;
  double beta_2;
  double epsilon;
  double root_scale;

  template <class T>
  auto on() const {
    return [beta_1 = static_cast<T>(beta_1), gain_1 = static_cast<T>(1.0 - beta_1),
            beta_2 = static_cast<T>(beta_2), gain_2 = static_cast<T>(1.0 - beta_2),
            epsilon = static_cast<T>(epsilon), root_scale = static_cast<T>(root_scale)](
               T gradient, T& mean, T& square) __attribute__((always_inline)) {
      mean = beta_1 * mean + gain_1 * gradient;
      square = beta_2 * square + gain_2 * gradient * gradient;
      return mean / (std::sqrt(square) * root_scale + epsilon);
    };
  }
};

// m as above;  u = max(beta_2 * u, |g| + epsilon);  m / u
struct AdaMax {
  static constexpr auto kName = "AdaMax";
  static constexpr auto kConstants = std::array{"beta_1", "beta_2", "epsilon"};
  double beta_1;
  double beta_2;
  double epsilon;

  template <class T>
  auto on() const {
    return [beta_1 = static_cast<T>(beta_1), gain_1 = static_cast<T>(1.0 - beta_1),
            beta_2 = static_cast<T>(beta_2), epsilon = static_cast<T>(epsilon)](
               T gradient, T& mean, T& largest) __attribute__((always_inline)) {
      mean = beta_1 * mean + gain_1 * gradient;
      largest = std::max(beta_2 * largest, std::abs(gradient) + epsilon);
      return mean / largest;
    };
  }
};

// s = s + g * g;  g / (sqrt(s) + epsilon)
struct AdaGrad {
  static constexpr auto kName = "AdaGrad";
  static constexpr auto kConstants = std::array{"epsilon"};
  double epsilon;

  template <class T>
  auto on() const {
    return [epsilon = static_cast<T>(epsilon)](T gradient, T& sum, T&)
               __attribute__((always_inline)) {
                 sum = sum + gradient * gradient;
                 return gradient / (std::sqrt(sum) + epsilon);
               };
  }
};

// s = rho * s + (1 - rho) * g * g;  v = momentum * v + g / (sqrt(s) + epsilon);  v
struct RmsProp {
  static constexpr auto kName = "RmsProp";
  static constexpr auto kConstants = std::array{"rho", "momentum", "epsilon"};
  double rho;
  double momentum;
  double epsilon;

  template <class T>
  auto on() const {
    return [rho = static_cast<T>(rho), gain = static_cast<T>(1.0 - rho),
            momentum = static_cast<T>(momentum), epsilon = static_cast<T>(epsilon)](
               T gradient, T& square, T& velocity) __attribute__((always_inline)) {
      square = rho * square + gain * gradient * gradient;
      velocity = momentum * velocity + gradient / (std::sqrt(square) + epsilon);
      return velocity;
    };
  }
};

// s = rho * s + (1 - rho) * g * g;  d = sqrt(t + epsilon) / sqrt(s + epsilon) * g
// t = rho * t + (1 - rho) * d * d;  d
struct AdaDelta {
  static constexpr auto kName = "AdaDelta";
  static constexpr auto kConstants = std::array{"rho", "epsilon"};
  double rho;
  double epsilon;

  template <class T>
  auto on() const {
    return [rho = static_cast<T>(rho), gain = static_cast<T>(1.0 - rho),
            epsilon = static_cast<T>(epsilon)](T gradient, T& square,
                                               T& moved) __attribute__((always_inline)) {
      square = rho * square + gain * gradient * gradient;
      const T move = std::sqrt(moved + epsilon) / std::sqrt(square + epsilon) * gradient;
      moved = rho * moved + gain * move * move;
      return move;
    };
  }
};

using AnyRule =
    std::variant<Sgd, Momentum, Nesterov, Lion, Adam, AdaMax, AdaGrad, RmsProp, AdaDelta>;

// One of the rules, as a type of its own.
struct Rule : AnyRule {
  using AnyRule::AnyRule;
};

}  // namespace sweephand
