// The order: permutations and the timeline.
#include "bind/bind.hpp"
#include "order/chunk_uses.hpp"
#include "order/mixed_timeline.hpp"
#include "order/permutation.hpp"
#include "order/rate.hpp"
#include "order/timeline.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

void bind_mixtures(py::module_& room) {
  py::class_<Rate>(room, "Rate")
      .def(py::init([](const Array<std::uint64_t>& begins, const Array<std::uint64_t>& firsts,
                       const Array<std::uint64_t>& lasts, const Array<std::uint64_t>& spans) {
             std::vector<RateSegment> segments;
             for (std::size_t k = 0; k < view(begins).size(); ++k)
               segments.push_back(
                   {view(begins)[k], view(firsts)[k], view(lasts)[k], view(spans)[k]});
             return Rate(std::move(segments));
           }),
           "begins"_a, "firsts"_a, "lasts"_a, "spans"_a)
      .def("due", &Rate::due, "time"_a)
      .def("reached", &Rate::reached, "samples"_a)
      .def_property_readonly("total", &Rate::total);

  py::class_<MixedTimeline, Timeline, std::shared_ptr<MixedTimeline>>(room, "MixedTimeline")
      .def(py::init([](std::shared_ptr<const Corpus> corpus, const OrderSettings& settings,
                       const std::vector<std::shared_ptr<SweepTimeline>>& timelines,
                       const std::vector<Rate>& rates, const std::vector<std::uint64_t>& limits,
                       bool tells_sweeps) {
             std::vector<TimelinePart> corpora;
             for (std::size_t c = 0; c < timelines.size(); ++c)
               corpora.push_back({timelines[c], rates.at(c), limits.at(c)});
             return std::make_shared<MixedTimeline>(std::move(corpus), settings,
                                                    std::move(corpora), tells_sweeps);
           }),
           "corpus"_a, "settings"_a, "timelines"_a, "rates"_a, "limits"_a, "tells_sweeps"_a)
      .def("time_of", &MixedTimeline::time_of, "number"_a, "own_time"_a, NoGil());
}

}  // namespace

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
      .def_property_readonly(
          "block_chunks",
          [](const Timeline& self) { return block_chunks(self.corpus(), self.settings()); })
      .def_property_readonly(
          "own_block_chunks",
          [](const Timeline& self) {
            std::vector<std::uint64_t> counts;
            for (const TimelinePart& one : self.parts(Rate::kMaxTime))
              counts.push_back(block_chunks(one.timeline->corpus(), one.timeline->settings()));
            return counts;
          })
      .def("own_times", &Timeline::own_times, "time"_a, NoGil())
      .def("free_key", &Timeline::free_key, "time"_a, NoGil())
      .def("find", &Timeline::find, "sequence"_a, "sweep"_a, NoGil())
      .def(
          "sequences",
          [](const std::shared_ptr<Timeline>& self, std::uint64_t start, std::uint64_t stop) {
            return to_numpy_without_gil([&] { return sequences_between(*self, start, stop); });
          },
          "start"_a, "stop"_a);

  py::class_<SweepTimeline, Timeline, std::shared_ptr<SweepTimeline>>(room, "SweepTimeline")
      .def(py::init<std::shared_ptr<const Corpus>, const OrderSettings&>(), "corpus"_a,
           "settings"_a);
  bind_mixtures(room);

  py::class_<LaneReader>(room, "LaneReader")
      .def(py::init<std::uint32_t, std::uint32_t>(), "count"_a, "index"_a);
  py::class_<ChunkUses>(room, "ChunkUses")
      .def(py::init<const std::shared_ptr<const Timeline>&, std::uint64_t, bool>(),
           "timeline"_a, "limit"_a, "by_lanes"_a)
      .def(
          "next",
          [](ChunkUses& self, std::span<const std::uint64_t> chunks, std::uint64_t time,
             const std::vector<LaneReader>& readers, bool skips_one) {
            return to_numpy_without_gil(
                [&] { return self.next(chunks, time, readers, skips_one); });
          },
          "chunks"_a, "time"_a, "readers"_a, "skips_one"_a);
}

}  // namespace sweephand
