// Plans of lengths in hand.
#include "compose/lengths.hpp"

#include "bind/bind.hpp"
#include "compose/micro_batches.hpp"

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace sweephand {
namespace {

using Counts = Array<std::uint32_t>;

void bind_rules(py::module_& room) {
  py::enum_<Width>(room, "Width")
      .value("OWN", Width::kOwn)
      .value("WIDEST", Width::kWidest)
      .value("EQUAL", Width::kEqual);
  py::class_<RowRule>(room, "RowRule")
      .def(py::init<std::uint32_t, std::uint64_t, bool, Width>(), "row_length"_a,
           "look_ahead"_a, "keeps_order"_a, "width"_a);
  py::class_<DealRule>(room, "DealRule")
      .def(py::init<std::uint32_t, std::uint32_t, std::optional<Cost>, std::uint64_t,
                    std::uint64_t>(),
           "num_workers"_a, "micro_batch_rows"_a, "balance"_a, "whole_rows"_a, "most_rows"_a);
}

void bind_rows(py::module_& room) {
  py::class_<LaidPieces>(room, "LaidPieces")
      .def_property_readonly("pieces",
                             [](const LaidPieces& laid) { return copy_to_numpy(laid.pieces); })
      .def_property_readonly("ends",
                             [](const LaidPieces& laid) { return copy_to_numpy(laid.ends); })
      .def_property_readonly("loads",
                             [](const LaidPieces& laid) { return copy_to_numpy(laid.loads); });
  py::class_<WorkerRows>(room, "WorkerRows")
      .def(py::init([](const Counts& sequences, const Counts& firsts, const Counts& sizes,
                       const Counts& cells, const Counts& marks, const Counts& group_of,
                       bool in_row, const RowRule& rule, const std::vector<Counts>& counts,
                       const std::vector<std::uint32_t>& limits, const DealRule& dealing) {
             std::vector<Load> loads;
             for (std::size_t i = 0; i < counts.size(); ++i)
               loads.push_back({.counts = view(counts[i]), .limit = limits.at(i)});
             const LengthPieces pieces{view(sequences), view(firsts), view(sizes), view(cells),
                                       view(marks)};
             const Together together{view(group_of), in_row};
             return without_gil(
                 [&] { return rows_of_workers(pieces, together, rule, loads, dealing); });
           }),
           "sequences"_a, "firsts"_a, "sizes"_a, "cells"_a, "marks"_a, "group_of"_a, "in_row"_a,
           "rule"_a, "counts"_a, "limits"_a, "dealing"_a)
      .def_property_readonly("num_micro_batches", &WorkerRows::num_micro_batches)
      .def_property_readonly("left",
                             [](const WorkerRows& rows) { return copy_to_numpy(rows.left); })
      .def("lay", &lay, "num_micro_batches"_a, NoGil());
}

}  // namespace

void bind_lengths(py::module_& room) {
  bind_rules(room);
  bind_rows(room);
  // The taker of each item.
  room.def(
      "deal_evenly",
      [](const Array<std::uint64_t>& costs, std::uint32_t num_takers) {
        const std::vector<uint128> wide(view(costs).begin(), view(costs).end());
        return to_numpy_without_gil([&] { return deal_evenly(wide, num_takers, wide.size()); });
      },
      "costs"_a, "num_takers"_a);
  py::class_<PlacedPieces>(room, "PlacedPieces")
      .def(py::init([](const Array<std::uint64_t>& sequences, const Counts& firsts,
                       const Counts& sizes, const Counts& wholes, const Counts& cells) {
             return PlacedPieces{to_vector(sequences), to_vector(firsts), to_vector(sizes),
                                 to_vector(wholes), to_vector(cells)};
           }),
           "sequences"_a, "firsts"_a, "sizes"_a, "wholes"_a, "cells"_a);
  room.def(
      "count_pieces",
      [](const PlacedPieces& pieces, const std::optional<std::shared_ptr<Corpus>>& masked) {
        return count_pieces(pieces, masked ? (*masked)->masks.get() : nullptr);
      },
      "pieces"_a, "masked"_a);
  room.def("plan_of_pieces", &plan_of, "pieces"_a, "request"_a, "counted"_a, "num_rows"_a,
           "row_length"_a, "global_rows"_a);
}

}  // namespace sweephand
