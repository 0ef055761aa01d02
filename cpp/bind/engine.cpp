// The engine, and what it delivers as arrays.
#include "engine/engine.hpp"

#include "bind/bind.hpp"
#include "engine/convert.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

namespace sweephand {
namespace {

// An array over a buffer that lives as long as the array does.
py::object wrap(const std::shared_ptr<Buffer>& buffer, const py::dtype& dtype,
                std::vector<py::ssize_t> shape) {
  if (!buffer) return py::none();
  using Owner = std::shared_ptr<Buffer>;
  auto owner = std::make_unique<Owner>(buffer);
  const py::capsule capsule(owner.release(), [](void* pointer) {
    const std::unique_ptr<Owner> dropped(static_cast<Owner*>(pointer));
  });
  return py::array(dtype, std::move(shape), buffer->data(), capsule);
}

py::ssize_t extent(std::uint64_t size) { return static_cast<py::ssize_t>(size); }

// Threads are joined without the GIL, which they may need. In a forked child there is nothing
// to join, and locks may be held forever: what the parent had is left alone. Code that makes a
// chunk may take its time, or be what drops the engine, in a garbage collection: then nobody
// waits here, but a thread of its own.
constexpr auto kPatience = std::chrono::milliseconds(100);

struct EngineDeleter {
  void operator()(Engine* engine) const {
    if (engine->forked()) return;
    std::unique_ptr<Engine> dropped(engine);
    const py::gil_scoped_release nogil;
    if (dropped->close(kPatience) && !dropped->runs_here()) {
      dropped.reset();
      return;
    }
    Engine* const late = dropped.release();
    try {
      std::thread([late] { const std::unique_ptr<Engine> last(late); }).detach();
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // Without another thread it stays: whoever waits here could wait forever.
    }
  }
};

void check_signals() {
  const py::gil_scoped_acquire gil;
  if (PyErr_CheckSignals() == 0) return;
  throw Interruption(std::make_exception_ptr(py::error_already_set()));
}

using NoGil = py::call_guard<py::gil_scoped_release>;

void bind_batch(py::module_& module) {
  py::class_<StreamBatch>(module, "StreamBatch")
      .def_readonly("num_samples", &StreamBatch::num_samples)
      .def_readonly("num_elements", &StreamBatch::num_elements)
      .def_readonly("longest", &StreamBatch::longest)
      .def_property_readonly("is_grid", [](const StreamBatch& s) { return s.mask != nullptr; })
      .def_readonly("rows", &StreamBatch::rows)
      .def_readonly("width", &StreamBatch::width)
      .def(
          "values",
          [](const StreamBatch& self, const py::dtype& dtype, std::vector<py::ssize_t> shape) {
            return wrap(self.values, dtype, std::move(shape));
          },
          "dtype"_a, "shape"_a)
      .def("mask",
           [](const StreamBatch& self) {
             return wrap(self.mask, py::dtype::of<std::uint8_t>(),
                         {extent(self.rows), extent(self.width)});
           })
      .def(
          "sample_offsets",
          [](const StreamBatch& self, std::uint64_t num_sequences) {
            return wrap(self.sample_offsets, py::dtype::of<std::int64_t>(),
                        {extent(num_sequences) + 1});
          },
          "num_sequences"_a)
      .def("element_offsets",
           [](const StreamBatch& self) {
             return wrap(self.element_offsets, py::dtype::of<std::int64_t>(),
                         {extent(self.num_samples) + 1});
           })
      .def(
          "beyond",
          [](const StreamBatch& self, const py::dtype& dtype, std::vector<py::ssize_t> shape) {
            return wrap(self.beyond, dtype, std::move(shape));
          },
          "dtype"_a, "shape"_a)
      .def("indices", [](const StreamBatch& self) {
        return wrap(self.indices, py::dtype::of<std::int32_t>(), {extent(self.num_elements)});
      });

  py::class_<Batch, std::shared_ptr<Batch>>(module, "Batch")
      .def_property_readonly("nominal_time", [](const Batch& b) { return b.plan.nominal_time; })
      .def_property_readonly("next_position", [](const Batch& b) { return b.plan.next; })
      .def_property_readonly("num_samples", [](const Batch& b) { return b.plan.num_samples; })
      .def_property_readonly("num_sequences",
                             [](const Batch& b) { return b.plan.share.size(); })
      .def_property_readonly("sweeps_ended", [](const Batch& b) { return b.plan.sweeps_ended; })
      .def_property_readonly("end_of_data", [](const Batch& b) { return b.plan.end_of_data; })
      .def_property_readonly("share_samples", [](const Batch& b) { return b.share_samples; })
      .def_readonly("num_cells", &Batch::num_cells)
      .def_property_readonly("num_rows", [](const Batch& b) { return b.plan.num_rows; })
      .def_property_readonly("row_length", [](const Batch& b) { return b.plan.row_length; })
      .def("sizes", [](const Batch& batch) { return to_numpy(sequence_sizes(batch.plan)); })
      .def("cells", [](const Batch& batch) { return to_numpy(cell_table(batch.plan)); })
      .def("segment_ids",
           [](const Batch& b) {
             return wrap(b.marks.segment_ids, py::dtype::of<std::int32_t>(),
                         {extent(b.plan.num_rows), extent(b.plan.row_length)});
           })
      .def("position_ids",
           [](const Batch& b) {
             return wrap(b.marks.position_ids, py::dtype::of<std::int32_t>(),
                         {extent(b.plan.num_rows), extent(b.plan.row_length)});
           })
      .def("sequences",
           [](const Batch& batch) { return to_numpy(sequence_numbers(batch.plan)); })
      .def(
          "stream",
          [](const Batch& batch, std::size_t stream) -> const StreamBatch& {
            return batch.streams.at(stream);
          },
          "stream"_a, py::return_value_policy::reference_internal);
}

}  // namespace

void bind_engine(py::module_& module) {
  bind_batch(module);

  py::enum_<Form>(module, "Form")
      .value("RAGGED", Form::kRagged)
      .value("PADDED", Form::kPadded)
      .value("ROWS", Form::kRows);

  py::class_<Member>(module, "Member")
      .def(py::init([](std::shared_ptr<Deserializer> deserializer,
                       const Array<std::uint64_t>& chunk_sequences,
                       const Array<std::uint64_t>& joined, std::uint32_t load_threads,
                       std::uint64_t open_chunks) {
             const auto counts = view(chunk_sequences);
             return Member{.deserializer = std::move(deserializer),
                           .chunks = std::make_shared<const ChunkTable>(counts, counts),
                           .joined = {view(joined).begin(), view(joined).end()},
                           .load_threads = load_threads,
                           .open_chunks = open_chunks};
           }),
           "deserializer"_a, "chunk_sequences"_a, "joined"_a, "load_threads"_a,
           "open_chunks"_a);
  py::class_<StreamSpec>(module, "StreamSpec")
      .def(py::init([](std::string name, std::uint32_t member, std::uint32_t column,
                       ElementType type, std::uint32_t element_bytes, bool variable,
                       std::uint64_t sample_elements, bool broadcast, bool counts,
                       const py::bytes& pad_value) {
             const auto bytes = std::as_bytes(std::span(std::string_view(pad_value)));
             return StreamSpec{.name = std::move(name),
                               .member = member,
                               .column = column,
                               .type = type,
                               .element_bytes = element_bytes,
                               .variable = variable,
                               .sample_elements = sample_elements,
                               .broadcast = broadcast,
                               .counts = counts,
                               .pad_value = {bytes.begin(), bytes.end()}};
           }),
           "name"_a, "member"_a, "column"_a, "type"_a, "element_bytes"_a, "variable"_a,
           "sample_elements"_a, "broadcast"_a, "counts"_a, "pad_value"_a);

  py::class_<AssembleOptions>(module, "AssembleOptions")
      .def(py::init([](Form form, bool pad_left, std::uint32_t multiple_of, bool segments) {
             return AssembleOptions{.form = form,
                                    .pad_left = pad_left,
                                    .multiple_of = multiple_of,
                                    .segments = segments};
           }),
           "form"_a, "pad_left"_a, "multiple_of"_a, "segments"_a)
      .def_readonly("pad_left", &AssembleOptions::pad_left)
      .def_readonly("multiple_of", &AssembleOptions::multiple_of);
  py::class_<Assembler, std::shared_ptr<Assembler>>(module, "Assembler")
      .def(py::init([](std::vector<Member> members, std::vector<StreamSpec> streams,
                       const AssembleOptions& options, bool load_ahead, py::function report) {
             return std::make_shared<Assembler>(std::move(members), std::move(streams), options,
                                                load_ahead, report_to(std::move(report)));
           }),
           "members"_a, "streams"_a, "options"_a, "load_ahead"_a, "report"_a);

  py::class_<EngineStats>(module, "EngineStats")
      .def_readonly("minibatches", &EngineStats::minibatches)
      .def_readonly("samples", &EngineStats::samples)
      .def_readonly("cells", &EngineStats::cells)
      .def_readonly("waited_ns", &EngineStats::waited_ns)
      .def_property_readonly("bytes_assembled",
                             [](const EngineStats& s) { return s.assembled.bytes_assembled; })
      .def_property_readonly("chunks_loaded",
                             [](const EngineStats& s) { return s.assembled.chunks_loaded; })
      .def_property_readonly("chunk_hits",
                             [](const EngineStats& s) { return s.assembled.chunk_hits; })
      .def_property_readonly("bytes_loaded",
                             [](const EngineStats& s) { return s.assembled.bytes_loaded; })
      .def_property_readonly("bytes_held",
                             [](const EngineStats& s) { return s.assembled.bytes_held; });

  py::class_<Engine, std::unique_ptr<Engine, EngineDeleter>>(module, "Engine")
      .def(py::init([](std::unique_ptr<Planner> planner, std::shared_ptr<Assembler> assembler,
                       std::uint32_t num_threads, std::uint32_t prefetch) {
             return std::unique_ptr<Engine, EngineDeleter>(
                 new Engine(std::move(planner), std::move(assembler),
                            {.num_threads = num_threads, .prefetch = prefetch}));
           }),
           "planner"_a, "assembler"_a, "num_threads"_a, "prefetch"_a)
      .def(
          "next",
          [](Engine& self, const Request& request) {
            return std::const_pointer_cast<Batch>(self.next(request, check_signals));
          },
          "request"_a, NoGil())
      .def(
          "seek", [](Engine& self, std::uint64_t time) { self.seek(time, check_signals); },
          "time"_a, NoGil())
      .def(
          "resume",
          [](Engine& self, const Position& position) { self.resume(position, check_signals); },
          "position"_a, NoGil())
      .def_property_readonly("time", &Engine::time)
      // Who holds the lock may drop an error of Python, for which it needs the GIL.
      .def_property_readonly("position", py::cpp_function(&Engine::position, NoGil()))
      .def_property_readonly("forked", &Engine::forked)
      .def("stats", &Engine::stats, NoGil())
      .def(
          "close",
          [](Engine& self, double seconds) {
            return self.close(std::chrono::duration<double>(seconds));
          },
          "seconds"_a, NoGil());

  // The bytes of elements; gives the number of the first that is refused.
  module.def(
      "convert",
      [](ElementType from, const Array<std::uint8_t>& values, ElementType to,
         Array<std::uint8_t> out, std::size_t count) {
        return convert(
            from, std::as_bytes(view(values)).data(), to,
            std::as_writable_bytes(std::span(out.mutable_data(), view(out).size())).data(),
            count);
      },
      "from_type"_a, "values"_a, "to_type"_a, "out"_a.noconvert(), "count"_a);
}

}  // namespace sweephand
