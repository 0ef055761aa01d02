// The Python extension: a list of its rooms, each after those that it names.
#include "bind/bind.hpp"

PYBIND11_MODULE(_core, module) {
  sweephand::bind_base(module);
  sweephand::bind_index(module);
  sweephand::bind_order(module);
  sweephand::bind_compose(module);
  sweephand::bind_read(module);
  sweephand::bind_formats(module);
  sweephand::bind_engine(module);
  sweephand::bind_train(module);
}
