#include "train/tensor.hpp"

#include <iterator>

namespace sweephand {

std::optional<std::pair<std::size_t, std::size_t>> find_shared(
    std::span<const Tensor> tensors) {
  struct Place {
    std::uintptr_t begin;
    std::uintptr_t end;
    std::size_t tensor;
  };
  std::vector<Place> places;
  places.reserve(tensors.size());
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto begin = reinterpret_cast<std::uintptr_t>(tensors[i].data);
    const std::size_t bytes = tensors[i].size * element_bytes(tensors[i].type);
    if (bytes > 0) places.push_back({.begin = begin, .end = begin + bytes, .tensor = i});
  }
  std::ranges::sort(places, {}, &Place::begin);
  const auto shared = std::ranges::adjacent_find(
      places, [](const Place& one, const Place& next) { return one.end > next.begin; });
  if (shared == places.end()) return std::nullopt;
  return std::pair{shared->tensor, std::next(shared)->tensor};
}

}  // namespace sweephand
