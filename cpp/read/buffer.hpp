// A vector whose new elements are not set to zero first.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

namespace sweephand {

template <class T>
struct UnsetAllocator : std::allocator<T> {
  template <class Other>
  struct rebind {  // NOLINT(readability-identifier-naming): the standard's name
    using other = UnsetAllocator<Other>;  // NOLINT(readability-identifier-naming): as above
  };
  template <class Other>
  void construct(Other* place) noexcept(std::is_nothrow_default_constructible_v<Other>) {
    ::new (static_cast<void*>(place)) Other;
  }
  template <class Other, class... Arguments>
  void construct(Other* place, Arguments&&... arguments) {
    std::construct_at(place, std::forward<Arguments>(arguments)...);
  }
};

template <class T>
using Buffer = std::vector<T, UnsetAllocator<T>>;

}  // namespace sweephand
