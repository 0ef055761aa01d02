// The properties of a plan, which a minibatch made from it shares. A common base class of both
// in Python, or a reference to the number, would add a third to the time of each access.
#pragma once

#include "bind/bind.hpp"
#include "compose/plan.hpp"

namespace sweephand {

template <class Class>
Class& def_plan(Class& bound) {
  using Planned = typename Class::type;
  const auto def = [&]<class Number>(const char* name, Number Plan::* number) {
    bound.def_property_readonly(name, [=](const Planned& plan) { return plan.*number; });
  };
  def("nominal_time", &Plan::nominal_time);
  def("next", &Plan::next);
  def("begin", &Plan::begin);
  def("request", &Plan::request);
  def("num_samples", &Plan::num_samples);
  def("num_sequences", &Plan::num_sequences);
  def("counted", &Plan::counted);
  def("sweeps_ended", &Plan::sweeps_ended);
  def("end_of_data", &Plan::end_of_data);
  def("num_rows", &Plan::num_rows);
  def("row_length", &Plan::row_length);
  def("global_rows", &Plan::global_rows);
  return bound
      .def_property_readonly("share_size",
                             [](const Planned& plan) { return plan.share.size(); })
      .def_property_readonly("share_ends", [](const Planned& plan) { return count_ends(plan); })
      .def("cells", [](const Planned& plan) { return to_numpy(cell_table(plan)); })
      .def("sequences", [](const Planned& plan) { return to_numpy(sequence_numbers(plan)); })
      .def("banned", [](const Planned& plan) { return copy_to_numpy(plan.banned); })
      .def("sweeps", [](const Planned& plan) { return to_numpy(sweeps(plan)); })
      .def("sizes", [](const Planned& plan) { return to_numpy(sequence_sizes(plan)); });
}

}  // namespace sweephand
