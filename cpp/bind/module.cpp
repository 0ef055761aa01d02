// The Python extension: a submodule for each room, after those that it names.
//
// It needs no GIL. Nothing global changes without a lock or an atomic: the pool of columns, the
// count of forks, and choices of instructions that are made once. Corpora, timelines, files,
// chunks and batches do not change, except state that they guard themselves; an engine, an
// assembler and a deserializer serve any number of threads. What changes without a lock (a
// digest, a ledger, an index or reader of CTF, a finder of frames, a planner) belongs to the
// one thread that made it, as the package uses it.
#include "bind/bind.hpp"

PYBIND11_MODULE(_core, module, pybind11::mod_gil_not_used()) {
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
