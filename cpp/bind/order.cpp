// The order: permutations and the timeline.
#include "bind/bind.hpp"
#include "order/cursor.hpp"
#include "order/permutation.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

void bind_order(py::module_& module) {
  py::class_<Permutation>(module, "Permutation")
      .def(py::init<std::uint64_t, std::uint64_t>(), "size"_a, "key"_a)
      .def(
          "take",
          [](const Permutation& self, std::uint64_t first, std::uint64_t count) {
            std::vector<std::uint64_t> items(count);
            {
              const py::gil_scoped_release nogil;
              self.fill(first, items);
            }
            return to_numpy(std::move(items));
          },
          "first"_a, "count"_a)
      .def("item", &Permutation::item, "place"_a)
      .def("place", &Permutation::place, "item"_a);

  py::class_<OrderSettings>(module, "OrderSettings")
      .def(py::init([](std::uint64_t seed, std::uint32_t num_lanes, std::uint64_t window_chunks,
                       std::uint64_t window_samples, bool randomize) {
             return OrderSettings{.seed = seed,
                                  .num_lanes = num_lanes,
                                  .window_chunks = window_chunks,
                                  .window_samples = window_samples,
                                  .randomize = randomize};
           }),
           "seed"_a, "num_lanes"_a, "window_chunks"_a, "window_samples"_a, "randomize"_a);

  py::class_<Timeline, std::shared_ptr<Timeline>>(module, "Timeline")
      .def(py::init<std::shared_ptr<const Corpus>, OrderSettings>(), "corpus"_a, "settings"_a)
      .def("find", &Timeline::find, "sequence"_a, "sweep"_a,
           py::call_guard<py::gil_scoped_release>())
      .def(
          "sequences",
          [](std::shared_ptr<Timeline> self, std::uint64_t start, std::uint64_t stop) {
            std::vector<std::uint64_t> numbers;
            {
              const py::gil_scoped_release nogil;
              numbers = sequences_between(std::move(self), start, stop);
            }
            return to_numpy(std::move(numbers));
          },
          "start"_a, "stop"_a);
}

}  // namespace sweephand
