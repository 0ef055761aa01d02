// Python's base classes of a minibatch and of its streams, written in C: with pybind11 and
// Python a small minibatch took longer to make than to read. They make arrays on demand, and
// answer the attributes that every loop uses before Python looks for them; the rest is written
// in Python over their parts.
#include "bind/served.hpp"

#include "bind/batch_arrays.hpp"
#include "bind/c_type.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <structmember.h>
#include <tuple>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

// -- The common data of all minibatches of a source --

// A stream as Python shows it.
struct Kind {
  std::size_t number = 0;  // in the batch
  py::object info;
  py::dtype dtype;
  std::vector<Extent> sample_shape;
  bool is_single = false;
  bool is_plain = false;  // neither variable nor transformed: arrays are those of the core
};

struct Kinds {
  py::object data_class;  // of streams
  py::dict places;        // of keys, in `kinds`
  std::vector<Kind> kinds;
  bool has_parts = false;  // sequences have parts, which the segments follow

  template <class Visit>
  void each(const Visit& visit) {
    visit(data_class);
    visit(places);
    for (Kind& kind : kinds) {
      visit(kind.info);
      visit(kind.dtype);
    }
  }
};

PyObject* new_kinds(PyTypeObject* type, PyObject* args, PyObject* /*named*/) {
  return or_error([&]() -> PyObject* {
    const auto [data_class, streams, has_parts] =
        py::reinterpret_borrow<py::args>(args).cast<std::tuple<py::type, py::dict, bool>>();
    Kinds kinds{.data_class = data_class, .has_parts = has_parts};
    for (const auto& [key, told] : streams) {
      auto [number, info, dtype, shape, is_single, is_plain] = told.cast<
          std::tuple<std::size_t, py::object, py::dtype, std::vector<Extent>, bool, bool>>();
      kinds.places[key] = kinds.kinds.size();
      kinds.kinds.push_back(
          {number, std::move(info), std::move(dtype), std::move(shape), is_single, is_plain});
    }
    return make(type, std::move(kinds));
  });
}

PyTypeObject* kinds_type() {
  static PyTypeObject* const type = make_type<Kinds>("sweephand._core.engine.StreamKinds", 0,
                                                     {{Py_tp_new, slot(&new_kinds)}});
  return type;
}

struct Names {
  PyObject* kinds = interned("kinds");
  PyObject* explain = interned("_explain_missing");
  PyObject* by_other_key = interned("_by_other_key");
};

const Names& names() {
  static const Names known;
  return known;
}

PyObject* number(std::uint64_t value) { return PyLong_FromUnsignedLongLong(value); }

// Common to both: the minibatch, and the data that it shares with other minibatches.
struct Parts {
  std::shared_ptr<const Batch> batch;
  py::object kinds;
  py::object contents;
  py::object device;
  py::object plan;  // the batch as pybind11 shows it, made on demand

  template <class Visit>
  void each(const Visit& visit) {
    visit(std::as_const(kinds));
    for (py::object* held : {&contents, &device, &plan}) visit(*held);
  }

  const Kinds& all_kinds() const { return value_of<Kinds>(kinds.ptr()); }

  const py::object& shown() {
    if (!plan) plan = py::cast(std::const_pointer_cast<Batch>(batch));
    return plan;
  }

  py::tuple as_tuple() { return py::make_tuple(shown(), contents, device); }
};

Parts parts_of(std::shared_ptr<const Batch> batch, py::object contents, py::object device) {
  auto kinds =
      py::reinterpret_steal<py::object>(PyObject_GetAttr(contents.ptr(), names().kinds));
  if (!kinds) throw py::error_already_set();
  if (Py_TYPE(kinds.ptr()) != kinds_type()) throw py::type_error("kinds are no StreamKinds");
  return {.batch = std::move(batch),
          .kinds = std::move(kinds),
          .contents = std::move(contents),
          .device = std::move(device),
          .plan = {}};
}

Parts parts_of(const py::object& batch, py::object contents, py::object device) {
  Parts parts =
      parts_of(batch.cast<std::shared_ptr<Batch>>(), std::move(contents), std::move(device));
  parts.plan = batch;
  return parts;
}

template <class Value>
PyObject* get_plan(PyObject* self, void* /*closure*/) {
  return or_error(
      self, [&] { return py::object(value_of<Value>(self).parts.shown()).release().ptr(); });
}

template <class Value>
PyObject* get_parts(PyObject* self, void* /*closure*/) {
  return or_error(self, [&] { return value_of<Value>(self).parts.as_tuple().release().ptr(); });
}

// -- A stream --

struct ServedStream {
  Parts parts;
  const Kind* kind;  // one of `parts.kinds`
  const StreamBatch* stream;
  py::object array;
  py::object offsets;
  py::object mask;

  template <class Visit>
  void each(const Visit& visit) {
    parts.each(visit);
    for (py::object* held : {&array, &offsets, &mask}) visit(*held);
  }

  PyObject* made_array() {
    if (!array) array = values_array(*stream, kind->dtype, kind->sample_shape);
    return array.inc_ref().ptr();
  }
};

PyObject* new_stream(PyTypeObject* type, Parts parts, PyObject* place) {
  const std::size_t at = PyLong_AsSize_t(place);
  const Kind& kind = parts.all_kinds().kinds.at(at);
  const StreamBatch& stream = parts.batch->streams.at(kind.number);
  return make(type, ServedStream{.parts = std::move(parts), .kind = &kind, .stream = &stream});
}

PyObject* new_stream_by_key(PyTypeObject* type, PyObject* args, PyObject* /*named*/) {
  return or_error([&]() -> PyObject* {
    auto [batch, contents, device, key] =
        py::reinterpret_borrow<py::args>(args)
            .cast<std::tuple<py::object, py::object, py::object, py::object>>();
    Parts parts = parts_of(batch, std::move(contents), std::move(device));
    const py::object place = parts.all_kinds().places[key];
    return new_stream(type, std::move(parts), place.ptr());
  });
}

PyObject* get_stream_attribute(PyObject* self, PyObject* name) {
  using Answers = std::array<Answer<ServedStream>, 5>;
  static const Answers answers{{
      {interned("values"),
       [](ServedStream& s) {
         return s.kind->is_plain && !s.stream->is_grid() ? s.made_array() : nullptr;
       }},
      {interned("offsets"),
       [](ServedStream& s) -> PyObject* {
         if (!s.stream->sample_offsets) return nullptr;
         if (!s.offsets)
           s.offsets = sample_offsets_array(*s.stream, s.parts.batch->share.size());
         return s.offsets.inc_ref().ptr();
       }},
      {interned("mask"),
       [](ServedStream& s) -> PyObject* {
         if (s.kind->is_single || !s.stream->is_grid()) return nullptr;
         if (!s.mask) s.mask = mask_array(*s.stream);
         return s.mask.inc_ref().ptr();
       }},
      {interned("num_samples"), [](ServedStream& s) { return number(s.stream->num_samples); }},
      {interned("num_sequences"),
       [](ServedStream& s) { return number(s.parts.batch->share.size()); }},
  }};
  return answer(answers, self, name, names().explain);
}

PyObject* get_info(PyObject* self, void* /*closure*/) {
  return py::object(value_of<ServedStream>(self).kind->info).release().ptr();
}

PyObject* get_number(PyObject* self, void* /*closure*/) {
  return number(value_of<ServedStream>(self).kind->number);
}

PyObject* get_array(PyObject* self, void* /*closure*/) {
  return or_error(self, [&] { return value_of<ServedStream>(self).made_array(); });
}

PyObject* get_is_grid(PyObject* self, void* /*closure*/) {
  return PyBool_FromLong(value_of<ServedStream>(self).stream->is_grid() ? 1 : 0);
}

PyObject* get_laid_out(PyObject* self, void* /*closure*/) {
  return or_error(self, [&]() -> PyObject* {
    auto& s = value_of<ServedStream>(self);
    if (s.kind->is_plain && (s.kind->is_single || s.stream->is_grid())) return s.made_array();
    return py::none().release().ptr();
  });
}

PyTypeObject* stream_type() {
  static std::array<PyGetSetDef, 8> attributes{{
      {"info", &get_info, nullptr, nullptr, nullptr},
      {"_number", &get_number, nullptr, nullptr, nullptr},
      {"_batch", &get_plan<ServedStream>, nullptr, nullptr, nullptr},
      {"_minibatch_parts", &get_parts<ServedStream>, nullptr, nullptr, nullptr},
      {"_array", &get_array, nullptr, nullptr, nullptr},
      {"_is_grid", &get_is_grid, nullptr, nullptr, nullptr},
      {"_laid_out", &get_laid_out, nullptr, nullptr, nullptr},
      {},
  }};
  static std::array<PyMemberDef, 2> members{{
      {"__dictoffset__", T_PYSSIZET, sizeof(PyObject), READONLY, nullptr},
      {},
  }};
  static PyTypeObject* const type =
      make_type<ServedStream>("sweephand._core.engine.ServedStream", Py_TPFLAGS_BASETYPE,
                              {{Py_tp_new, slot(&new_stream_by_key)},
                               {Py_tp_getattro, slot(&get_stream_attribute)},
                               {Py_tp_getset, attributes.data()},
                               {Py_tp_members, members.data()}});
  return type;
}

// -- A minibatch --

struct ServedBatch {
  Parts parts;
  std::vector<py::object> streams;  // in the order of `parts.kinds`; none until asked for

  template <class Visit>
  void each(const Visit& visit) {
    parts.each(visit);
    for (py::object& stream : streams) visit(stream);
  }
};

PyObject* new_batch(PyTypeObject* type, PyObject* args, PyObject* /*named*/) {
  return or_error([&]() -> PyObject* {
    auto [batch, contents, device] =
        py::reinterpret_borrow<py::args>(args)
            .cast<std::tuple<py::object, py::object, py::object>>();
    return make(type,
                ServedBatch{.parts = parts_of(batch, std::move(contents), std::move(device))});
  });
}

PyObject* get_stream(PyObject* self, PyObject* key) {
  return or_error(self, [&]() -> PyObject* {
    auto& b = value_of<ServedBatch>(self);
    const Kinds& kinds = b.parts.all_kinds();
    PyObject* const place =
        b.parts.batch->end_of_data ? nullptr : PyDict_GetItemWithError(kinds.places.ptr(), key);
    if (place == nullptr) {
      if (PyErr_Occurred() != nullptr) return nullptr;
      return PyObject_CallMethodOneArg(self, names().by_other_key, key);
    }
    if (b.streams.empty()) b.streams.resize(kinds.kinds.size());
    py::object& stream = b.streams[PyLong_AsSize_t(place)];
    if (!stream) {
      auto made = py::reinterpret_steal<py::object>(
          new_stream(reinterpret_cast<PyTypeObject*>(kinds.data_class.ptr()), b.parts, place));
      if (!made) return nullptr;
      if (!stream) stream = std::move(made);
    }
    return stream.inc_ref().ptr();
  });
}

int is_there(PyObject* self) {
  return value_of<ServedBatch>(self).parts.batch->end_of_data ? 0 : 1;
}

PyObject* segments(const ServedBatch& b, const Buffer& buffer,
                   py::object (*array_of)(const Batch&)) {
  if (!buffer || b.parts.all_kinds().has_parts) return nullptr;
  return array_of(*b.parts.batch).release().ptr();
}

PyObject* get_batch_attribute(PyObject* self, PyObject* name) {
  using Answers = std::array<Answer<ServedBatch>, 6>;
  static const Answers answers{{
      {interned("num_samples"),
       [](ServedBatch& b) { return number(b.parts.batch->share_samples); }},
      {interned("num_sequences"),
       [](ServedBatch& b) { return number(b.parts.batch->share.size()); }},
      {interned("nominal_time"),
       [](ServedBatch& b) { return number(b.parts.batch->nominal_time); }},
      {interned("end_of_sweep"),
       [](ServedBatch& b) { return PyBool_FromLong(b.parts.batch->sweeps_ended > 0 ? 1 : 0); }},
      {interned("segment_ids"),
       [](ServedBatch& b) {
         return segments(b, b.parts.batch->marks.segment_ids, &segment_ids_array);
       }},
      {interned("position_ids"),
       [](ServedBatch& b) {
         return segments(b, b.parts.batch->marks.position_ids, &position_ids_array);
       }},
  }};
  return answer(answers, self, name, names().explain);
}

PyTypeObject* batch_type() {
  static std::array<PyGetSetDef, 3> attributes{{
      {"_plan", &get_plan<ServedBatch>, nullptr, nullptr, nullptr},
      {"_parts", &get_parts<ServedBatch>, nullptr, nullptr, nullptr},
      {},
  }};
  static PyTypeObject* const type =
      make_type<ServedBatch>("sweephand._core.engine.ServedBatch", Py_TPFLAGS_BASETYPE,
                             {{Py_tp_new, slot(&new_batch)},
                              {Py_tp_getattro, slot(&get_batch_attribute)},
                              {Py_tp_getset, attributes.data()},
                              {Py_mp_subscript, slot(&get_stream)},
                              {Py_nb_bool, slot(&is_there)}});
  return type;
}

}  // namespace

py::object serve(std::shared_ptr<const Batch> batch, const py::type& kind, py::object contents,
                 py::object device) {
  auto* const type = reinterpret_cast<PyTypeObject*>(kind.ptr());
  if (PyType_IsSubtype(type, batch_type()) == 0)
    throw py::type_error("the class of a minibatch must derive from ServedBatch");
  PyObject* const made = make(
      type,
      ServedBatch{.parts = parts_of(std::move(batch), std::move(contents), std::move(device))});
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::object>(made);
}

void bind_served(py::module_& room) {
  for (PyTypeObject* type : {kinds_type(), stream_type(), batch_type()}) {
    const auto shown = py::reinterpret_borrow<py::type>(reinterpret_cast<PyObject*>(type));
    room.attr(shown.attr("__name__")) = shown;
  }
}

}  // namespace sweephand
