// Taking and releasing the GIL without ending a thread in the middle of its work.
#pragma once

#include <pybind11/pybind11.h>

#include <unistd.h>

namespace sweephand {

namespace py = pybind11;

// The result of `action`, which may wait for the GIL, and is C. Until Python 3.13 a thread that
// requests the GIL when the interpreter ends is unwound: through a destructor that takes the
// whole process with it, and through a handler of ours it cannot go either. As Python 3.14
// does, such a thread stays here, until the process has ended.
template <class Action>
auto or_stay(const Action& action) {
  try {
    return action();
  } catch (...) {  // not by a C++ exception, which C does not throw
    while (true) pause();
  }
}

// True if the interpreter is shutting down.
inline bool interpreter_ends() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Holds the GIL, on any thread.
class Gil {
 public:
  Gil() : state_(or_stay([] { return PyGILState_Ensure(); })) {}
  Gil(const Gil&) = delete;
  Gil& operator=(const Gil&) = delete;
  ~Gil() {
    or_stay([this] { PyGILState_Release(state_); });
  }

 private:
  PyGILState_STATE state_;
};

// Gives the GIL away for a while. REQUIRES: it is held
class WithoutGil {
 public:
  WithoutGil() : state_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  ~WithoutGil() {
    or_stay([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

using NoGil = py::call_guard<WithoutGil>;

// The result of `action`, called without the GIL.
template <class Action>
auto without_gil(const Action& action) {
  const WithoutGil nogil;
  return action();
}

}  // namespace sweephand
