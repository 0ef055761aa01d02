#include "bind/own_result.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Npy = py::detail::npy_api;

bool is_owner(PyObject* array) {
  return py::detail::check_flags(array, Npy::NPY_ARRAY_OWNDATA_);
}

bool is_text(PyObject* object) {
  return PyBytes_CheckExact(object) != 0 || PyUnicode_CheckExact(object) != 0;
}

bool is_immutable(PyObject* object) {
  return is_text(object) || object == Py_None || PyBool_Check(object) != 0 ||
         PyLong_CheckExact(object) != 0 || PyFloat_CheckExact(object) != 0 ||
         is_numpy_number(object);
}

// True for texts alone, which are immutable.
bool holds_texts(PyObject* array) {
  if (!py::detail::check_flags(array, Npy::NPY_ARRAY_C_CONTIGUOUS_)) return false;
  const auto& proxy = proxy_of(array);
  std::size_t size = 1;
  for (int axis = 0; axis < proxy.nd; ++axis)
    size *= static_cast<std::size_t>(proxy.dimensions[axis]);
  const std::span objects(reinterpret_cast<PyObject* const*>(proxy.data), size);
  return std::ranges::all_of(objects,
                             [](PyObject* one) { return one != nullptr && is_text(one); });
}

// The memory that the elements of an array take.
struct Memory {
  explicit Memory(PyObject* array) {
    const auto& proxy = proxy_of(array);
    begin = end = reinterpret_cast<std::uintptr_t>(proxy.data);
    for (int axis = 0; axis < proxy.nd; ++axis) {
      if (proxy.dimensions[axis] == 0) return;
      const auto reach = (proxy.dimensions[axis] - 1) * proxy.strides[axis];
      (reach < 0 ? begin : end) += static_cast<std::uintptr_t>(reach);
    }
    end +=
        static_cast<std::uintptr_t>(py::reinterpret_borrow<py::dtype>(proxy.descr).itemsize());
  }

  bool holds(const Memory& other) const { return begin <= other.begin && other.end <= end; }

  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
};

// An array that owns memory, and its reference count if there is no other holder.
struct Root {
  PyObject* array;
  Py_ssize_t count;
  bool is_returned = false;  // the result shows some of the memory
};

// Judges the results of successive calls.
class Judge {
 public:
  // Before a call: forgets the previous call.
  void begin() {
    given_.clear();
    roots_.clear();
  }

  // Then: an argument array, which a list holds.
  void give(PyObject* array) {
    given_.push_back(array);
    if (PyObject* const base = proxy_of(array).base; base != nullptr && is_array(base))
      root_of(base, Py_REFCNT(base));
  }

  // After it. REQUIRES: `result` has `count` - 1 references besides the caller's
  bool owns(PyObject* result, Py_ssize_t count) {
    return looks_own(result, count) && std::ranges::all_of(roots_, [](const Root& root) {
             return !root.is_returned || Py_REFCNT(root.array) == root.count;
           });
  }

 private:
  bool looks_own(PyObject* object, Py_ssize_t count) {
    if (is_array(object)) return array_looks_own(object, count);
    if (is_immutable(object)) return true;
    if (Py_REFCNT(object) != count) return false;
    if (PyDict_CheckExact(object) != 0) {
      PyObject* key = nullptr;
      PyObject* value = nullptr;
      for (Py_ssize_t at = 0; PyDict_Next(object, &at, &key, &value) != 0;)
        if (!looks_own(value, 1)) return false;
      return true;
    }
    if (PyList_CheckExact(object) == 0 && PyTuple_CheckExact(object) == 0) return false;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i)
      if (!looks_own(PySequence_Fast_GET_ITEM(object, i), 1)) return false;
    return true;
  }

  bool array_looks_own(PyObject* array, Py_ssize_t count) {
    const auto& proxy = proxy_of(array);
    if (py::reinterpret_borrow<py::dtype>(proxy.descr).kind() == 'O' && !holds_texts(array))
      return false;
    const bool is_given = std::ranges::find(given_, array) != given_.end();
    if (Py_REFCNT(array) != (is_given ? count + 1 : count)) return false;
    if (proxy.base == nullptr) return is_owner(array);
    if (PyBytes_CheckExact(proxy.base) != 0) return true;
    if (!is_array(proxy.base)) return false;
    if (is_given) {
      root_of(proxy.base, 0).is_returned = true;  // and was counted before
      return true;
    }
    if (is_of_given(proxy.base)) {
      if (!lies_in_given(array, proxy.base)) return false;
    } else if (proxy_of(proxy.base).base != nullptr || !is_owner(proxy.base)) {
      return false;
    }
    Root& root = root_of(proxy.base, 0);
    ++root.count;
    root.is_returned = true;
    return true;
  }

  bool is_of_given(PyObject* base) const {
    return std::ranges::any_of(given_,
                               [&](PyObject* given) { return proxy_of(given).base == base; });
  }

  // The same memory holds arguments of other calls, which may have kept them.
  bool lies_in_given(PyObject* array, PyObject* base) const {
    return std::ranges::any_of(given_, [&](PyObject* given) {
      return proxy_of(given).base == base && Memory(given).holds(Memory(array));
    });
  }

  Root& root_of(PyObject* array, Py_ssize_t count) {
    const auto found = std::ranges::find(roots_, array, &Root::array);
    if (found != roots_.end()) return *found;
    return roots_.emplace_back(Root{.array = array, .count = count});
  }

  std::vector<PyObject*> given_;
  std::vector<Root> roots_;
};

// The error that was raised, with its traceback; null if none was.
py::object taken_error() {
  PyObject* type = nullptr;
  PyObject* error = nullptr;
  PyObject* trace = nullptr;
  PyErr_Fetch(&type, &error, &trace);
  PyErr_NormalizeException(&type, &error, &trace);
  if (trace != nullptr) PyException_SetTraceback(error, trace);
  Py_XDECREF(type);
  Py_XDECREF(trace);
  return py::reinterpret_steal<py::object>(error);
}

// Successive calls of a function of sequences.
class SequenceCalls {
 public:
  SequenceCalls(const py::object& function, const py::list& names, const py::list& streams)
      : function_(function), names_(names), streams_(streams) {}

  // The function's result for a sequence; null if it raised an error.
  py::object call(py::ssize_t number, PyObject* key, Judge* judge = nullptr) {
    if (judge != nullptr) judge->begin();
    auto sequence = py::dict();
    for (py::ssize_t i = 0; i < PyList_GET_SIZE(names_.ptr()); ++i) {
      PyObject* const value = PyList_GetItem(PyList_GET_ITEM(streams_.ptr(), i), number);
      if (value == nullptr ||
          PyDict_SetItem(sequence.ptr(), PyList_GET_ITEM(names_.ptr(), i), value) != 0)
        throw py::error_already_set();
      if (judge != nullptr && is_array(value)) judge->give(value);
    }
    const std::array<PyObject*, 2> arguments = {sequence.ptr(), key};
    const std::size_t count = key == nullptr ? 1 : 2;
    return py::reinterpret_steal<py::object>(or_stay([&] {
      return PyObject_Vectorcall(function_.ptr(), arguments.data(), count, nullptr);
    }));
  }

 private:
  const py::object& function_;
  const py::list& names_;
  const py::list& streams_;
};

// The number of the sequence that is being mapped and its start time, in 16 bytes that other
// threads read meanwhile; the number is -1 between calls.
class Progress {
 public:
  explicit Progress(Array<std::uint8_t>& memory) : bytes_(writable_bytes(memory)) {
    if (bytes_.size() != sizeof(std::int64_t) + sizeof(double))
      throw std::invalid_argument("progress takes 16 bytes");
  }

  double begin(std::int64_t number) { return set(number); }
  double end() { return set(-1); }

 private:
  double set(std::int64_t number) {
    const std::chrono::duration<double> now =
        std::chrono::steady_clock::now().time_since_epoch();
    double since = now.count();
    std::atomic_ref(*reinterpret_cast<std::int64_t*>(bytes_.data()))
        .store(number, std::memory_order_relaxed);
    std::atomic_ref(*reinterpret_cast<double*>(bytes_.data() + sizeof(number)))
        .store(since, std::memory_order_relaxed);
    return since;
  }

  std::span<std::byte> bytes_;
};

}  // namespace

py::tuple own_call(const py::object& function, const py::tuple& arguments) {
  auto result = py::reinterpret_steal<py::object>(
      or_stay([&] { return PyObject_CallObject(function.ptr(), arguments.ptr()); }));
  if (!result) throw py::error_already_set();
  const bool is_own = Judge().owns(result.ptr(), 1);
  return py::make_tuple(result, is_own);
}

namespace {

// Calls a function for each sequence; `take(number, result, has_raised)` gets its result or
// error. Returns the duration of the calls in seconds.
template <class Take>
py::array_t<double> call_each(SequenceCalls& calls, py::ssize_t count, const py::list& keys,
                              std::int64_t first, Array<std::uint8_t>& memory, Judge* judge,
                              const Take& take) {
  Progress progress(memory);
  std::vector<double> seconds;
  seconds.reserve(static_cast<std::size_t>(count));
  for (py::ssize_t i = 0; i < count; ++i) {
    PyObject* const key = keys.empty() ? nullptr : PyList_GetItem(keys.ptr(), i);
    if (PyErr_Occurred() != nullptr) throw py::error_already_set();
    const double since = progress.begin(first + i);
    py::object result = calls.call(i, key, judge);
    const bool has_raised = !result;
    if (has_raised && (PyErr_ExceptionMatches(PyExc_Exception) != 0 ||
                       PyErr_ExceptionMatches(PyExc_SystemExit) != 0))
      result = taken_error();
    seconds.push_back(progress.end() - since);
    if (!result) throw py::error_already_set();
    take(first + i, std::move(result), has_raised);
  }
  return to_numpy(std::move(seconds));
}

py::ssize_t count_of(const py::list& streams) {
  return streams.empty() ? 0 : PyList_Size(streams[0].ptr());
}

}  // namespace

py::tuple map_each(const py::object& function, const py::list& names, const py::list& streams,
                   const py::list& keys, std::int64_t first, Array<std::uint8_t> memory,
                   const py::object& settle) {
  SequenceCalls calls(function, names, streams);
  Judge judge;
  py::list results;
  const auto take = [&](std::int64_t number, py::object result, bool has_raised) {
    if (has_raised || !judge.owns(result.ptr(), 1)) result = settle(number, result, has_raised);
    results.append(result);
  };
  const auto seconds = call_each(calls, count_of(streams), keys, first, memory, &judge, take);
  return py::make_tuple(results, seconds);
}

py::array_t<double> map_into(SampleColumns& columns, const py::object& function,
                             const py::list& names, const py::list& streams,
                             const py::list& keys, Array<std::uint8_t> memory,
                             const py::object& settle) {
  SequenceCalls calls(function, names, streams);
  const auto take = [&](std::int64_t number, const py::object& result, bool has_raised) {
    if (has_raised || !columns.append(result.ptr()))
      columns.append_checked(settle(number, result, has_raised));
  };
  return call_each(calls, count_of(streams), keys, 0, memory, nullptr, take);
}

}  // namespace sweephand
