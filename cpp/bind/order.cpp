// The order: permutations and the timeline.
#include "bind/bind.hpp"
#include "order/chunk_uses.hpp"
#include "order/cursor.hpp"
#include "order/permutation.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace sweephand {

void bind_order(py::module_& room) {
  py::class_<Permutation>(room, "Permutation")
      .def(py::init<std::uint64_t, std::uint64_t>(), "size"_a, "key"_a)
      .def(
          "take",
          [](const Permutation& self, std::uint64_t first, std::uint64_t count) {
            return to_numpy_without_gil([&] {
              std::vector<std::uint64_t> items(count);
              self.fill(first, items);
              return items;
            });
          },
          "first"_a, "count"_a)
      .def("item", &Permutation::item, "place"_a)
      .def("place", &Permutation::place, "item"_a);

  py::class_<OrderSettings>(room, "OrderSettings")
      .def(py::init<std::uint64_t, std::uint32_t, std::uint64_t, std::uint64_t, bool>(),
           "seed"_a, "num_lanes"_a, "window_chunks"_a, "window_samples"_a, "randomize"_a);

  py::class_<Timeline, std::shared_ptr<Timeline>>(room, "Timeline")
      .def(py::init<std::shared_ptr<const Corpus>, OrderSettings>(), "corpus"_a, "settings"_a)
      .def_property_readonly(
          "block_chunks",
          [](const Timeline& self) { return block_chunks(self.corpus(), self.settings()); })
      .def("find", &Timeline::find, "sequence"_a, "sweep"_a,
           py::call_guard<py::gil_scoped_release>())
      .def(
          "sequences",
          [](const std::shared_ptr<Timeline>& self, std::uint64_t start, std::uint64_t stop) {
            return to_numpy_without_gil([&] { return sequences_between(self, start, stop); });
          },
          "start"_a, "stop"_a);

  py::class_<LaneReader>(room, "LaneReader")
      .def(py::init<std::uint32_t, std::uint32_t>(), "count"_a, "index"_a);
  py::class_<ChunkUses>(room, "ChunkUses")
      .def(py::init<std::shared_ptr<const Timeline>, std::uint64_t, bool>(), "timeline"_a,
           "limit"_a, "by_lanes"_a)
      .def(
          "next",
          [](ChunkUses& self, const Array<std::uint64_t>& chunks, std::uint64_t time,
             const std::vector<LaneReader>& readers, bool skips_one) {
            return to_numpy_without_gil(
                [&] { return self.next(view(chunks), time, readers, skips_one); });
          },
          "chunks"_a, "time"_a, "readers"_a, "skips_one"_a);
}

}  // namespace sweephand
