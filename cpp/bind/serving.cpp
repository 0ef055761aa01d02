// Repeated calls with the same request, and loops, without Python: after a step of training no
// interpreter code is in a cache, and each Python function on the way costs 5 to 10 us. New or
// wrong requests go to Python.
#include "bind/serving.hpp"

#include "bind/c_type.hpp"
#include "bind/served.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <structmember.h>
#include <tuple>
#include <utility>

namespace sweephand {
namespace {

// -- The base class of cursors --

struct Asked {
  std::int64_t size = 0;  // 0: nothing was asked
  std::int64_t num_partitions = 0;
  std::int64_t index = 0;

  bool operator==(const Asked&) const = default;
};

struct ServedCursor {
  py::object engine;  // null where Python has to know of each minibatch
  py::object kind;
  py::object contents;
  Engine* served = nullptr;  // `engine`
  Asked asked;               // by the last call
  Request request;           // for that
  py::object given;          // by the last loop
  Request looped;            // the same in C++

  template <class Visit>
  void each(const Visit& visit) {
    for (py::object* held : {&engine, &kind, &contents, &given}) visit(*held);
  }

  bool serves() const { return engine && !served->forked(); }
};

struct Names {
  std::array<PyObject*, 6> arguments{nullptr,  // the source itself has none
                                     interned("minibatch_size_in_samples"),
                                     interned("input_map"),
                                     interned("device"),
                                     interned("num_data_partitions"),
                                     interned("partition_index")};
  PyObject* cursor = interned("_cursor");
  PyObject* own_time = interned("_time");
};

const Names& names() {
  static const Names known;
  return known;
}

// The next minibatch. The cursor is not used without the GIL: another thread may change it.
PyObject* next_minibatch(const ServedCursor& cursor, const Request& request, PyObject* contents,
                         PyObject* device) {
  const py::object engine = cursor.engine;
  auto kind = py::reinterpret_borrow<py::type>(cursor.kind);
  auto shown =
      contents == Py_None ? cursor.contents : py::reinterpret_borrow<py::object>(contents);
  const Request asked = request;
  auto batch = next_of(*cursor.served, asked);
  return serve(std::move(batch), kind, std::move(shown),
               py::reinterpret_borrow<py::object>(device))
      .release()
      .ptr();
}

// An integer; -1 if it is too large, or of another type, which Python handles.
std::int64_t plain_integer(PyObject* object) {
  if (PyLong_CheckExact(object) == 0) return -1;
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  return overflow == 0 ? value : -1;
}

std::optional<Asked> asked_of(PyObject* size, PyObject* num_partitions, PyObject* index) {
  const Asked asked{
      .size = plain_integer(size),
      .num_partitions = num_partitions == nullptr ? 1 : plain_integer(num_partitions),
      .index = index == nullptr ? 0 : plain_integer(index)};
  if (asked.size <= 0 || asked.num_partitions <= 0 || asked.index < 0) return std::nullopt;
  return asked;
}

PyObject* new_cursor(PyTypeObject* type, PyObject* /*args*/, PyObject* /*named*/) {
  return make(type, ServedCursor{});
}

PyObject* wrong_number(const char* method) {
  return PyErr_Format(PyExc_TypeError, "%s: wrong number of arguments", method);
}

PyObject* serve_by(PyObject* self, PyObject* const* args, Py_ssize_t number) {
  if (number != 3) return wrong_number("serve_by");
  return or_error(self, [&]() -> PyObject* {
    auto& cursor = value_of<ServedCursor>(self);
    const auto engine = py::reinterpret_borrow<py::object>(args[0]);
    if (engine.is_none()) {
      cursor.engine = py::object();
    } else {
      cursor.served = &engine.cast<Engine&>();
      cursor.kind = py::reinterpret_borrow<py::type>(args[1]);
      cursor.contents = py::reinterpret_borrow<py::object>(args[2]);
      cursor.engine = engine;
    }
    Py_RETURN_NONE;
  });
}

PyObject* remember(PyObject* self, PyObject* const* args, Py_ssize_t number) {
  if (number != 4) return wrong_number("remember");
  return or_error(self, [&]() -> PyObject* {
    auto& cursor = value_of<ServedCursor>(self);
    cursor.asked = asked_of(args[1], args[2], args[3]).value_or(Asked{});
    cursor.request = py::handle(args[0]).cast<const Request&>();
    Py_RETURN_NONE;
  });
}

PyObject* serve_request(PyObject* self, PyObject* const* args, Py_ssize_t number) {
  if (number != 1 && number != 3) return wrong_number("serve");
  return or_error(self, [&]() -> PyObject* {
    auto& cursor = value_of<ServedCursor>(self);
    if (!cursor.serves()) Py_RETURN_NONE;
    if (cursor.given.ptr() != args[0]) {
      cursor.looped = py::handle(args[0]).cast<const Request&>();
      cursor.given = py::reinterpret_borrow<py::object>(args[0]);
    }
    PyObject* const contents = number == 3 ? args[1] : Py_None;
    return next_minibatch(cursor, cursor.looped, contents, number == 3 ? args[2] : Py_None);
  });
}

PyObject* get_time(PyObject* self, void* /*closure*/) {
  const py::scoped_critical_section alone{self};
  const auto& cursor = value_of<ServedCursor>(self);
  if (cursor.engine) return PyLong_FromUnsignedLongLong(cursor.served->time());
  return PyObject_CallMethodNoArgs(self, names().own_time);
}

PyTypeObject* cursor_type() {
  static std::array<PyMethodDef, 4> methods{{
      {"serve_by", reinterpret_cast<PyCFunction>(slot(&serve_by)), METH_FASTCALL, nullptr},
      {"remember", reinterpret_cast<PyCFunction>(slot(&remember)), METH_FASTCALL, nullptr},
      {"serve", reinterpret_cast<PyCFunction>(slot(&serve_request)), METH_FASTCALL, nullptr},
      {},
  }};
  static std::array<PyGetSetDef, 2> attributes{{
      {"time", &get_time, nullptr, nullptr, nullptr},
      {},
  }};
  static PyTypeObject* const type =
      make_type<ServedCursor>("sweephand._core.engine.ServedCursor", Py_TPFLAGS_BASETYPE,
                              {{Py_tp_new, slot(&new_cursor)},
                               {Py_tp_methods, methods.data()},
                               {Py_tp_getset, attributes.data()}});
  return type;
}

// -- The method next_minibatch of a source --

struct NextMethod {
  vectorcallfunc call;  // first, as CPython has to find it
  py::object function;  // of Python

  template <class Visit>
  void each(const Visit& visit) {
    visit(function);
  }
};

// The minibatch of a call with the last request; null if Python has to handle it.
PyObject* next_as_before(PyObject* const* args, std::size_t number, PyObject* named) {
  std::array<PyObject*, 6> given{};
  if (number > given.size()) return nullptr;
  std::copy_n(args, number, given.begin());
  const std::size_t num_named = named == nullptr ? 0 : PyTuple_GET_SIZE(named);
  for (std::size_t i = 0; i < num_named; ++i) {
    const auto& known = names().arguments;
    const auto* const found = std::ranges::find(known, PyTuple_GET_ITEM(named, i));
    if (found == known.end()) return nullptr;
    PyObject*& argument = given.at(found - known.begin());
    if (argument != nullptr) return nullptr;
    argument = args[number + i];
  }
  const auto [self, size, input_map, device, num_partitions, index] = given;
  if (self == nullptr || size == nullptr) return nullptr;
  if (input_map != nullptr && input_map != Py_None) return nullptr;
  const auto asked = asked_of(size, num_partitions, index);
  if (!asked) return nullptr;
  // Not by the source's own lookup, which asks Python for names that it does not know.
  const auto held =
      py::reinterpret_steal<py::object>(PyObject_GenericGetAttr(self, names().cursor));
  if (!held) {
    PyErr_Clear();
    return nullptr;
  }
  if (PyObject_TypeCheck(held.ptr(), cursor_type()) == 0) return nullptr;
  return or_error(held.ptr(), [&]() -> PyObject* {
    const auto& cursor = value_of<ServedCursor>(held.ptr());
    if (cursor.asked != *asked || !cursor.serves()) return nullptr;
    return next_minibatch(cursor, cursor.request, Py_None,
                          device == nullptr ? Py_None : device);
  });
}

PyObject* call_method(PyObject* self, PyObject* const* args, std::size_t flagged,
                      PyObject* named) {
  PyObject* const minibatch = next_as_before(args, PyVectorcall_NARGS(flagged), named);
  if (minibatch != nullptr || PyErr_Occurred() != nullptr) return minibatch;
  return PyObject_Vectorcall(value_of<NextMethod>(self).function.ptr(), args, flagged, named);
}

PyObject* new_method(PyTypeObject* type, PyObject* args, PyObject* /*named*/) {
  return or_error([&]() -> PyObject* {
    auto [function] = py::reinterpret_borrow<py::args>(args).cast<std::tuple<py::function>>();
    return make(type, NextMethod{.call = &call_method, .function = std::move(function)});
  });
}

// Binds as functions do: a method on an object, itself on a class.
PyObject* bind_method(PyObject* self, PyObject* object, PyObject* /*type*/) {
  if (object == nullptr || object == Py_None) return Py_NewRef(self);
  return PyMethod_New(self, object);
}

PyTypeObject* method_type() {
  static std::array<PyMemberDef, 3> members{{
      {"__dictoffset__", T_PYSSIZET, sizeof(PyObject), READONLY, nullptr},
      {"__vectorcalloffset__", T_PYSSIZET, sizeof(Object<NextMethod>) - sizeof(NextMethod),
       READONLY, nullptr},
      {},
  }};
  static std::array<PyGetSetDef, 2> attributes{{
      {"__dict__", &PyObject_GenericGetDict, &PyObject_GenericSetDict, nullptr, nullptr},
      {},
  }};
  static PyTypeObject* const type =
      make_type<NextMethod>("sweephand._core.engine.NextMethod",
                            static_cast<unsigned>(Py_TPFLAGS_METHOD_DESCRIPTOR) |
                                static_cast<unsigned>(Py_TPFLAGS_HAVE_VECTORCALL),
                            {{Py_tp_new, slot(&new_method)},
                             {Py_tp_call, slot(&PyVectorcall_Call)},
                             {Py_tp_descr_get, slot(&bind_method)},
                             {Py_tp_getset, attributes.data()},
                             {Py_tp_members, members.data()}});
  return type;
}

}  // namespace

void check_signals() {
  const Gil gil;
  if (PyErr_CheckSignals() == 0) return;
  throw Interruption(std::make_exception_ptr(py::error_already_set()));
}

std::shared_ptr<const Batch> next_of(Engine& engine, const Request& request) {
  // To release the GIL means to wait for it again: for ms, while other threads load chunks.
  if (auto ready = engine.next_if_ready(request)) return ready;
  return without_gil([&] { return engine.next(request, check_signals); });
}

void bind_serving(py::module_& room) {
  for (PyTypeObject* type : {cursor_type(), method_type()}) {
    const auto shown = py::reinterpret_borrow<py::type>(reinterpret_cast<PyObject*>(type));
    room.attr(shown.attr("__name__")) = shown;
  }
}

}  // namespace sweephand
