// Composition of minibatches: packing, boundaries of buckets, and the planners.
#include "bind/bind.hpp"
#include "bind/plan.hpp"
#include "compose/boundaries.hpp"
#include "compose/bptt.hpp"
#include "compose/bucketed.hpp"
#include "compose/event_planner.hpp"
#include "compose/fit.hpp"
#include "compose/pack.hpp"
#include "compose/packed.hpp"
#include "compose/share.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Sizes32 = Array<std::uint32_t>;
using Numbers16 = Array<std::uint16_t>;

std::vector<Load> loads_of(const std::vector<Sizes32>& counts,
                           const std::vector<std::uint32_t>& limits) {
  std::vector<Load> loads;
  for (std::size_t i = 0; i < counts.size(); ++i)
    loads.push_back({.counts = view(counts[i]), .limit = limits.at(i)});
  return loads;
}

void bind_kernels(py::module_& room) {
  py::class_<Rows>(room, "Rows")
      .def_property_readonly("members", as_array(&Rows::members))
      .def_property_readonly("ends", as_array(&Rows::ends));
  py::enum_<Fill>(room, "Fill")
      .value("IN_ORDER", Fill::kInOrder)
      .value("LONGEST_FIRST", Fill::kLongestFirst)
      .value("MIXED", Fill::kMixed);
  room.def(
      "pack",
      [](const Sizes32& sizes, Fill fill, std::uint32_t row_length, std::uint64_t look_ahead,
         const std::vector<Sizes32>& counts, const std::vector<std::uint32_t>& limits,
         const Numbers16& corpora, const Numbers16& sweeps) {
        const std::vector<Load> loads = loads_of(counts, limits);
        const PackItems items{view(sizes), loads, view(corpora), view(sweeps)};
        return without_gil([&] { return pack(items, fill, row_length, look_ahead); });
      },
      "sizes"_a, "fill"_a, "row_length"_a, "look_ahead"_a, "counts"_a, "limits"_a, "corpora"_a,
      "sweeps"_a);

  py::class_<SizeCount>(room, "SizeCount")
      .def(py::init<std::uint32_t, std::uint64_t>(), "size"_a, "count"_a)
      .def_readonly("size", &SizeCount::size)
      .def_readonly("count", &SizeCount::count);
  room.def("count_sizes", &count_sizes, "corpus"_a, NoGil());
  room.def(
      "best_boundaries",
      [](const std::vector<SizeCount>& sizes, std::uint32_t num_buckets) {
        return best_boundaries(sizes, num_buckets);
      },
      "sizes"_a, "num_buckets"_a, NoGil());
  room.def(
      "padded_cells",
      [](const std::vector<SizeCount>& sizes, const std::vector<std::uint32_t>& boundaries) {
        return padded_cells(sizes, boundaries);
      },
      "sizes"_a, "boundaries"_a, NoGil());
}

void bind_plan(py::module_& room) {
  py::class_<Cost>(room, "Cost")
      .def(py::init<std::uint32_t, bool>(), "per_sample"_a, "is_quadratic"_a)
      .def(
          "with_items",
          [](Cost cost, std::shared_ptr<Sizes> counts, std::uint64_t per_item) {
            cost.items.push_back({std::move(counts), per_item});
            return cost;
          },
          "counts"_a, "per_item"_a);
  py::class_<Request>(room, "Request")
      .def(py::init<std::uint64_t, std::uint32_t, std::uint32_t, bool, std::optional<Cost>>(),
           "num_samples"_a, "num_workers"_a, "rank"_a, "crosses_sweeps"_a, "balance"_a)
      .def_readonly("num_samples", &Request::num_samples)
      .def_readonly("crosses_sweeps", &Request::crosses_sweeps)
      .def_readonly("num_workers", &Request::num_workers)
      .def_readonly("rank", &Request::rank);
  py::class_<PieceCount>(room, "PieceCount")
      .def(
          py::init<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t>(),
          "samples"_a, "pieces"_a, "ends"_a, "labels"_a, "own_labels"_a)
      .def_readonly("samples", &PieceCount::samples)
      .def_readonly("pieces", &PieceCount::pieces)
      .def_readonly("ends", &PieceCount::ends)
      .def_readonly("labels", &PieceCount::labels)
      .def_readonly("own_labels", &PieceCount::own_labels)
      .def_readonly("label_weight", &PieceCount::label_weight);
  py::class_<Position>(room, "Position")
      .def(py::init<std::uint64_t, std::vector<std::uint64_t>>(), "time"_a, "progress"_a)
      .def_readonly("time", &Position::time)
      .def_readonly("progress", &Position::progress);
  py::class_<Plan> plan(room, "Plan");
  def_plan(plan).def_property_readonly("share_samples", &count_samples);
  room.def(
      "join_plans", [](const std::vector<const Plan*>& plans) { return joined(plans); },
      "plans"_a);
}

void bind_share(py::module_& room) {
  py::enum_<Sharing>(room, "Sharing")
      .value("DEAL", Sharing::kDeal)
      .value("LANES", Sharing::kLanes)
      .value("EVEN_COUNTS", Sharing::kEvenCounts)
      .value("EVEN_COSTS", Sharing::kEvenCosts)
      .value("DEAL_COSTS", Sharing::kDealCosts);
  py::class_<ShareRule>(room, "ShareRule")
      .def(py::init<Sharing, Cost, std::uint32_t, bool>(), "sharing"_a, "cost"_a, "num_lanes"_a,
           "first_half"_a);
  room.def(
      "owners",
      [](const Plan& whole, std::uint32_t num_workers, const ShareRule& rule) {
        return to_numpy_without_gil([&] { return owners(whole.share, num_workers, rule); });
      },
      "whole"_a, "num_workers"_a, "rule"_a);
}

using PlannerClass = py::class_<Planner, py::smart_holder>;

PlannerClass bind_planner(py::module_& room) {
  PlannerClass planner(room, "Planner");
  planner.def("seek", &Planner::seek, "time"_a, NoGil())
      .def("resume", &Planner::resume, "position"_a, NoGil())
      .def_property_readonly("time", &Planner::time)
      .def("next", &plan_only, "request"_a, NoGil())
      .def("next_to_read", &Planner::next, "request"_a, NoGil())
      .def("find", &Planner::find, "sequence"_a, "sweep"_a, "num_samples"_a, NoGil())
      .def("boundary", &Planner::boundary, "time"_a, NoGil())
      .def("sequences_in", as_array(&Planner::sequences_in), "start"_a, "stop"_a,
           "num_samples"_a);
  return planner;
}

// The choices of a layout, and the planner for them.
template <class Made, class Choices>
py::class_<Choices> bind_layout(py::module_& room, PlannerClass& planner, const char* name) {
  py::class_<Choices> bound(room, name);
  planner.def(py::init([](std::shared_ptr<Timeline> timeline, const Choices& choices,
                          std::uint64_t limit) -> std::unique_ptr<Planner> {
                return without_gil([&] {
                  return std::make_unique<Made>(std::move(timeline), choices, limit);
                });
              }),
              "timeline"_a, "choices"_a, "limit"_a);
  return bound;
}

void bind_events(py::module_& room) {
  py::class_<Bans, std::shared_ptr<Bans>>(room, "Bans")
      .def(py::init<std::size_t>(), "num_sequences"_a)
      .def("add", &Bans::add, "at"_a, "sequences"_a, NoGil());
  py::class_<Skip>(room, "Skip")
      .def(py::init<std::uint64_t, std::uint64_t>(), "begin"_a, "end"_a);
  py::class_<Events>(room, "Events")
      .def(py::init<std::vector<Skip>, std::vector<std::uint64_t>, std::shared_ptr<Bans>>(),
           "skips"_a, "cuts"_a, "bans"_a);
  py::class_<EventPlanner, Planner, py::smart_holder>(room, "EventPlanner")
      .def(py::init<std::shared_ptr<Timeline>, std::unique_ptr<Planner>, Events>(),
           "timeline"_a, "planner"_a, "events"_a);
}

void bind_layouts(py::module_& room, PlannerClass& planner) {
  bind_layout<FitPlanner, Fitting>(room, planner, "Fitting").def(py::init<>());
  bind_layout<PackedPlanner, Packing>(room, planner, "Packing")
      .def(py::init<std::uint32_t, std::uint64_t, bool, std::uint32_t>(), "row_length"_a,
           "look_ahead"_a, "split_long"_a, "micro_batch_rows"_a)
      .def(
          "within",
          [](Packing packing, std::shared_ptr<Sizes> counts, std::uint32_t most) {
            packing.limits.push_back({std::move(counts), most});
            return packing;
          },
          "counts"_a, "most"_a);
  bind_layout<BucketedPlanner, Bucketing>(room, planner, "Bucketing")
      .def(py::init<std::vector<std::uint32_t>, std::uint64_t>(), "boundaries"_a,
           "num_sequences"_a);
  bind_layout<BpttPlanner, Truncation>(room, planner, "Truncation")
      .def(py::init<std::uint32_t>(), "length"_a);
}

}  // namespace

void bind_compose(py::module_& room) {
  bind_kernels(room);
  bind_plan(room);
  bind_share(room);
  PlannerClass planner = bind_planner(room);
  bind_layouts(room, planner);
  bind_events(room);
  bind_lengths(room);
}

}  // namespace sweephand
