// The Python extension: a list of its rooms.
#include "bind/bind.hpp"

PYBIND11_MODULE(_core, module) {
  sweephand::bind_base(module);
  sweephand::bind_train(module);
}
