// What makes a minibatch: planners, which read nothing.
#include "bind/bind.hpp"
#include "compose/fit.hpp"

#include <cstdint>
#include <memory>

namespace sweephand {

void bind_compose(py::module_& module) {
  py::class_<Request>(module, "Request")
      .def(py::init([](std::uint64_t num_samples, std::uint32_t num_workers, std::uint32_t rank,
                       std::uint32_t num_skipped) {
             return Request{.num_samples = num_samples,
                            .num_workers = num_workers,
                            .rank = rank,
                            .num_skipped = num_skipped};
           }),
           "num_samples"_a, "num_workers"_a, "rank"_a, "num_skipped"_a);

  py::class_<Plan>(module, "Plan")
      .def_readonly("nominal_time", &Plan::nominal_time)
      .def_readonly("num_samples", &Plan::num_samples)
      .def_readonly("sweeps_ended", &Plan::sweeps_ended)
      .def_readonly("end_of_data", &Plan::end_of_data)
      .def("sequences", [](const Plan& plan) { return to_numpy(sequence_numbers(plan)); })
      .def("sizes", [](const Plan& plan) { return to_numpy(sequence_sizes(plan)); });

  py::class_<Planner, std::unique_ptr<Planner>>(module, "Planner")
      .def("next", &Planner::next, "request"_a, py::call_guard<py::gil_scoped_release>())
      .def("seek", &Planner::seek, "time"_a, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("time", &Planner::time);

  py::class_<FitPlanner, Planner, std::unique_ptr<FitPlanner>>(module, "FitPlanner")
      .def(py::init([](std::shared_ptr<Timeline> timeline, std::uint64_t limit,
                       bool cross_sweeps, bool balance_samples) {
             const py::gil_scoped_release nogil;
             return std::make_unique<FitPlanner>(
                 std::move(timeline), FitOptions{.limit = limit,
                                                 .cross_sweeps = cross_sweeps,
                                                 .balance_samples = balance_samples});
           }),
           "timeline"_a, "limit"_a, "cross_sweeps"_a, "balance_samples"_a);
}

}  // namespace sweephand
