// What makes a minibatch: packing, boundaries of buckets, and the planners.
#include "bind/bind.hpp"
#include "compose/boundaries.hpp"
#include "compose/bptt.hpp"
#include "compose/bucketed.hpp"
#include "compose/fit.hpp"
#include "compose/pack.hpp"
#include "compose/packed.hpp"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Sizes32 = Array<std::uint32_t>;
using NoGil = py::call_guard<py::gil_scoped_release>;

void bind_kernels(py::module_& module) {
  py::class_<Rows>(module, "Rows")
      .def_property_readonly("members",
                             [](Rows& rows) { return to_numpy(std::vector(rows.members)); })
      .def_property_readonly("ends",
                             [](Rows& rows) { return to_numpy(std::vector(rows.ends)); });
  module.def(
      "pack_in_order",
      [](const Sizes32& sizes, std::uint32_t row_length, std::uint64_t look_ahead) {
        const py::gil_scoped_release nogil;
        return pack_in_order(view(sizes), row_length, look_ahead);
      },
      "sizes"_a, "row_length"_a, "look_ahead"_a);
  module.def(
      "pack_longest_first",
      [](const Sizes32& sizes, std::uint32_t row_length) {
        const py::gil_scoped_release nogil;
        return pack_longest_first(view(sizes), row_length);
      },
      "sizes"_a, "row_length"_a);

  py::class_<SizeCount>(module, "SizeCount")
      .def(py::init<std::uint32_t, std::uint64_t>(), "size"_a, "count"_a)
      .def_readonly("size", &SizeCount::size)
      .def_readonly("count", &SizeCount::count);
  module.def("count_sizes", &count_sizes, "corpus"_a, NoGil());
  module.def(
      "best_boundaries",
      [](const std::vector<SizeCount>& sizes, std::uint32_t num_buckets) {
        return best_boundaries(sizes, num_buckets);
      },
      "sizes"_a, "num_buckets"_a, NoGil());
  module.def(
      "padded_cells",
      [](const std::vector<SizeCount>& sizes, const std::vector<std::uint32_t>& boundaries) {
        return padded_cells(sizes, boundaries);
      },
      "sizes"_a, "boundaries"_a, NoGil());
}

void bind_plan(py::module_& module) {
  py::class_<Request>(module, "Request")
      .def(py::init([](std::uint64_t num_samples, std::uint32_t num_workers, std::uint32_t rank,
                       std::uint32_t num_skipped, bool crosses_sweeps) {
             return Request{.num_samples = num_samples,
                            .num_workers = num_workers,
                            .rank = rank,
                            .num_skipped = num_skipped,
                            .crosses_sweeps = crosses_sweeps};
           }),
           "num_samples"_a, "num_workers"_a, "rank"_a, "num_skipped"_a, "crosses_sweeps"_a);
  py::class_<Position>(module, "Position")
      .def(py::init([](std::uint64_t time, std::vector<std::uint64_t> progress) {
             return Position{.time = time, .progress = std::move(progress)};
           }),
           "time"_a, "progress"_a)
      .def_readonly("time", &Position::time)
      .def_readonly("progress", &Position::progress);
  py::class_<Plan>(module, "Plan")
      .def_readonly("nominal_time", &Plan::nominal_time)
      .def_readonly("next", &Plan::next)
      .def_readonly("num_samples", &Plan::num_samples)
      .def_readonly("num_sequences", &Plan::num_sequences)
      .def_readonly("sweeps_ended", &Plan::sweeps_ended)
      .def_readonly("end_of_data", &Plan::end_of_data)
      .def("cells", [](const Plan& plan) { return to_numpy(cell_table(plan)); })
      .def_readonly("num_rows", &Plan::num_rows)
      .def_readonly("row_length", &Plan::row_length)
      .def_readonly("global_rows", &Plan::global_rows)
      .def("sequences", [](const Plan& plan) { return to_numpy(sequence_numbers(plan)); })
      .def("sizes", [](const Plan& plan) { return to_numpy(sequence_sizes(plan)); });
}

}  // namespace

void bind_compose(py::module_& module) {
  bind_kernels(module);
  bind_plan(module);

  py::class_<Planner, py::smart_holder>(module, "Planner")
      .def("seek", &Planner::seek, "time"_a, NoGil())
      .def("resume", &Planner::resume, "position"_a, NoGil())
      .def_property_readonly("time", &Planner::time)
      .def("next", &Planner::next, "request"_a, NoGil())
      .def("find", &Planner::find, "sequence"_a, "sweep"_a, "num_samples"_a, NoGil())
      .def(
          "sequences_in",
          [](const Planner& self, std::uint64_t start, std::uint64_t stop,
             std::uint64_t num_samples) {
            std::vector<std::uint64_t> sequences;
            {
              const py::gil_scoped_release nogil;
              sequences = self.sequences_in(start, stop, num_samples);
            }
            return to_numpy(std::move(sequences));
          },
          "start"_a, "stop"_a, "num_samples"_a);

  py::class_<FitPlanner, Planner, py::smart_holder>(module, "FitPlanner")
      .def(py::init([](std::shared_ptr<Timeline> timeline, std::uint64_t limit,
                       bool cross_sweeps, bool balance_samples) {
             const py::gil_scoped_release nogil;
             return std::make_unique<FitPlanner>(
                 std::move(timeline), FitOptions{.limit = limit,
                                                 .cross_sweeps = cross_sweeps,
                                                 .balance_samples = balance_samples});
           }),
           "timeline"_a, "limit"_a, "cross_sweeps"_a, "balance_samples"_a);
  py::class_<PackedPlanner, Planner, py::smart_holder>(module, "PackedPlanner")
      .def(py::init([](std::shared_ptr<Timeline> timeline, std::uint32_t row_length,
                       std::uint64_t look_ahead, bool split_long, std::uint64_t limit) {
             return std::make_unique<PackedPlanner>(
                 std::move(timeline), PackedOptions{.packing = {.row_length = row_length,
                                                                .look_ahead = look_ahead,
                                                                .split_long = split_long},
                                                    .limit = limit});
           }),
           "timeline"_a, "row_length"_a, "look_ahead"_a, "split_long"_a, "limit"_a);
  py::class_<BucketedPlanner, Planner, py::smart_holder>(module, "BucketedPlanner")
      .def(
          py::init([](std::shared_ptr<Timeline> timeline, std::vector<std::uint32_t> boundaries,
                      std::uint64_t num_sequences, std::uint64_t limit) {
            return std::make_unique<BucketedPlanner>(
                std::move(timeline),
                BucketedOptions{.bucketing = {.boundaries = std::move(boundaries),
                                              .num_sequences = num_sequences},
                                .limit = limit});
          }),
          "timeline"_a, "boundaries"_a, "num_sequences"_a, "limit"_a);
  py::class_<BpttPlanner, Planner, py::smart_holder>(module, "BpttPlanner")
      .def(py::init([](std::shared_ptr<Timeline> timeline, std::uint32_t length,
                       std::uint64_t limit) {
             return std::make_unique<BpttPlanner>(
                 std::move(timeline), BpttOptions{.length = length, .limit = limit});
           }),
           "timeline"_a, "length"_a, "limit"_a);
}

}  // namespace sweephand
