// The Python extension: a submodule for each room, after those that it names.
#include "bind/bind.hpp"

PYBIND11_MODULE(_core, module) {
  const auto add = [&](const char* name, void (*bind)(sweephand::py::module_&)) {
    sweephand::py::module_ room = module.def_submodule(name);
    bind(room);
  };
  add("base", sweephand::bind_base);
  add("index", sweephand::bind_index);
  add("order", sweephand::bind_order);
  add("compose", sweephand::bind_compose);
  add("read", sweephand::bind_read);
  add("formats", sweephand::bind_formats);
  add("engine", sweephand::bind_engine);
  add("train", sweephand::bind_train);
  add("testing", sweephand::bind_testing);
}
