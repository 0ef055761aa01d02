// The engine, and the parts with which it carries out plans.
#include "engine/engine.hpp"

#include "bind/bind.hpp"
#include "engine/copy.hpp"
#include "engine/mapped_sequences.hpp"
#include "engine/mixed_sequences.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

namespace sweephand {
namespace {

// Threads are joined without the GIL, which they may need. In a forked child there is nothing
// to join, and locks may be held forever: the parent's objects are left alone. Code that makes
// a chunk may be slow, or may itself drop the engine, in a garbage collection: then a separate
// thread waits instead of this one. At the end of the interpreter there is no wait: a thread
// that is left over may hold a lock.
constexpr auto kPatience = std::chrono::milliseconds(100);

struct EngineDeleter {
  void operator()(Engine* engine) const {
    if (engine->forked() || interpreter_ends()) return;
    std::unique_ptr<Engine> dropped(engine);
    const WithoutGil nogil;
    if (dropped->close(kPatience) && !dropped->runs_here()) {
      dropped.reset();
      return;
    }
    Engine* const late = dropped.release();
    try {
      std::thread([late] { const std::unique_ptr<Engine> last(late); }).detach();
    } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch)
      // Without another thread the engine is leaked: a wait here could last forever.
    }
  }
};

// Throws Python's exception for a signal, such as Ctrl-C.
void check_signals() {
  const Gil gil;
  if (PyErr_CheckSignals() == 0) return;
  throw Interruption(std::make_exception_ptr(py::error_already_set()));
}

// To release the GIL means to wait for it again: for ms, while other threads load chunks. So it
// is released only to wait. REQUIRES: the engine is not forked
std::shared_ptr<Batch> next_of(Engine& engine, const Request& request) {
  auto batch = engine.next_if_ready(request);
  if (!batch) batch = without_gil([&] { return engine.next(request, check_signals); });
  return std::const_pointer_cast<Batch>(batch);
}

// A map that is Python code.
class CallbackMap final : public SequenceMap {
 public:
  explicit CallbackMap(py::function make) : make_(hold(std::move(make))) {}

  std::vector<std::shared_ptr<const Chunk>> make(WantedSequences wanted,
                                                 std::vector<std::uint64_t> places,
                                                 std::shared_ptr<const Batch> stored) override {
    const Gil gil;
    const auto chunks =
        call(*make_, to_numpy(std::move(wanted.numbers)), to_numpy(std::move(wanted.sweeps)),
             to_numpy(std::move(wanted.sizes)), to_numpy(std::move(places)),
             std::const_pointer_cast<Batch>(stored))
            .cast<std::vector<std::shared_ptr<Chunk>>>();
    return {chunks.begin(), chunks.end()};
  }

 private:
  std::shared_ptr<const py::function> make_;
};

void bind_mapping(py::module_& room) {
  const py::class_<Sequences, std::shared_ptr<Sequences>> sequences(room, "Sequences");
  py::class_<MappedSequences, Sequences, std::shared_ptr<MappedSequences>>(room,
                                                                           "MappedSequences")
      .def(py::init([](std::shared_ptr<Assembler> stored, std::shared_ptr<Sizes> sizes,
                       std::uint64_t num_stored, const Array<std::uint64_t>& origins,
                       py::function make) {
             return std::make_shared<MappedSequences>(
                 std::move(stored), std::move(sizes), num_stored, to_vector(origins),
                 std::make_shared<CallbackMap>(std::move(make)));
           }),
           "stored"_a, "sizes"_a, "num_stored"_a, "origins"_a, "make"_a);
}

void bind_mixture(py::module_& room) {
  py::class_<MixedMember>(room, "MixedMember")
      .def(py::init<Member, std::vector<StreamSpec>, std::vector<std::uint32_t>,
                    std::vector<StreamSpec>, std::shared_ptr<Corpus>, Rate>(),
           "member"_a, "streams"_a, "columns"_a, "absent"_a, "corpus"_a, "rate"_a);
  py::class_<MixedSequences, Sequences, std::shared_ptr<MixedSequences>>(room, "MixedSequences")
      .def(py::init([](const std::vector<MixedMember>& members, bool load_ahead,
                       bool led_by_first, py::function report) {
             return std::make_shared<MixedSequences>(members, load_ahead, led_by_first,
                                                     report_to(std::move(report)));
           }),
           "members"_a, "load_ahead"_a, "led_by_first"_a, "report"_a);
}

void bind_assembler(py::module_& room) {
  py::class_<Assembler, std::shared_ptr<Assembler>> assembler(room, "Assembler");
  bind_mapping(room);
  py::class_<Member>(room, "Member")
      .def(py::init([](const std::optional<std::shared_ptr<Deserializer>>& deserializer,
                       const std::optional<std::shared_ptr<Sequences>>& made,
                       const Starts& chunk_starts, const Array<std::uint64_t>& joined,
                       const Array<std::uint64_t>& part_starts, std::uint32_t load_threads,
                       std::uint64_t open_chunks, bool in_turns) {
             return Member{.deserializer = deserializer.value_or(nullptr),
                           .made = made.value_or(nullptr),
                           .chunks = chunk_starts,
                           .joined = to_vector(joined),
                           .parts = {to_vector(part_starts)},
                           .load_threads = load_threads,
                           .open_chunks = open_chunks,
                           .in_turns = in_turns};
           }),
           "deserializer"_a, "made"_a, "chunk_starts"_a, "joined"_a, "part_starts"_a,
           "load_threads"_a, "open_chunks"_a, "in_turns"_a);
  py::class_<StreamSpec>(room, "StreamSpec")
      .def(py::init<std::string, std::uint32_t, std::uint32_t, ElementType, std::uint32_t, bool,
                    bool, std::uint64_t, std::uint64_t, bool, bool, bool, bool, py::bytes>(),
           "name"_a, "member"_a, "column"_a, "type"_a, "element_bytes"_a, "variable"_a,
           "sparse"_a, "head"_a, "sample_elements"_a, "broadcast"_a, "single"_a, "carried"_a,
           "counts"_a, "pad_value"_a);
  bind_mixture(room);
  assembler
      .def(py::init([](std::vector<Member> members, std::vector<StreamSpec> streams,
                       const AssembleOptions& options, bool load_ahead, std::uint64_t led_by,
                       py::function report) {
             return std::make_shared<Assembler>(std::move(members), std::move(streams), options,
                                                load_ahead, led_by,
                                                report_to(std::move(report)));
           }),
           "members"_a, "streams"_a, "options"_a, "load_ahead"_a, "led_by"_a, "report"_a)
      .def(
          "assemble",
          [](Assembler& self, const Plan& plan) {
            const Turn turn(check_signals);
            return std::const_pointer_cast<Batch>(self.assemble(plan, turn));
          },
          "plan"_a, NoGil());
}

template <auto Field>
auto of_assembled(const EngineStats& stats) {
  return stats.assembled.*Field;
}

void bind_stats(py::module_& room) {
  py::class_<WorkTime>(room, "WorkTime")
      .def_readonly("total_ns", &WorkTime::total_ns)
      .def_readonly("waited_ns", &WorkTime::waited_ns);
  py::class_<EngineStats>(room, "EngineStats")
      .def_readonly("minibatches", &EngineStats::minibatches)
      .def_readonly("samples", &EngineStats::samples)
      .def_readonly("cells", &EngineStats::cells)
      .def_readonly("waited_ns", &EngineStats::waited_ns)
      .def_readonly("made_ahead", &EngineStats::made_ahead)
      .def_readonly("serves_ahead", &EngineStats::serves_ahead)
      .def_property_readonly("bytes_assembled", &of_assembled<&AssembleStats::bytes_assembled>)
      .def_property_readonly("chunks_loaded", &of_assembled<&AssembleStats::chunks_loaded>)
      .def_property_readonly("chunk_hits", &of_assembled<&AssembleStats::chunk_hits>)
      .def_property_readonly("bytes_loaded", &of_assembled<&AssembleStats::bytes_loaded>)
      .def_property_readonly("bytes_held", &of_assembled<&AssembleStats::bytes_held>)
      .def_property_readonly("load", &of_assembled<&AssembleStats::load>)
      .def_property_readonly("write", &of_assembled<&AssembleStats::write>);
}

void bind_running(py::module_& room) {
  py::class_<LookAhead>(room, "LookAhead")
      .def(py::init<std::shared_ptr<const Timeline>, std::uint64_t, bool, bool>(), "timeline"_a,
           "limit"_a, "by_lanes"_a, "with_open"_a)
      .def_property_readonly("horizon", &LookAhead::horizon)
      .def("chunks_at", &LookAhead::chunks_at, "time"_a, "request"_a);
  py::class_<Engine, std::unique_ptr<Engine, EngineDeleter>>(room, "Engine")
      .def(py::init([](std::unique_ptr<Planner> planner, std::shared_ptr<Assembler> assembler,
                       std::uint32_t num_threads, std::uint32_t prefetch, bool adapts,
                       bool may_take_turns, const LookAhead& look_ahead) {
             return std::unique_ptr<Engine, EngineDeleter>(
                 new Engine(std::move(planner), std::move(assembler),
                            {.num_threads = num_threads,
                             .prefetch = prefetch,
                             .adapts = adapts,
                             .may_take_turns = may_take_turns},
                            look_ahead));
           }),
           "planner"_a, "assembler"_a, "num_threads"_a, "prefetch"_a, "adapts"_a,
           "may_take_turns"_a, "look_ahead"_a)
      .def("next", &next_of, "request"_a)
      .def(
          "seek", [](Engine& self, std::uint64_t time) { self.seek(time, check_signals); },
          "time"_a, NoGil())
      .def(
          "resume",
          [](Engine& self, const Position& position) { self.resume(position, check_signals); },
          "position"_a, NoGil())
      .def_property_readonly("time", &Engine::time)
      // The holder of the lock may drop a Python error, for which it needs the GIL.
      .def_property_readonly("position", py::cpp_function(&Engine::position, NoGil()))
      .def_property_readonly("forked", &Engine::forked)
      .def("stats", &Engine::stats, NoGil())
      .def(
          "close",
          [](Engine& self, double seconds) {
            return self.close(std::chrono::duration<double>(seconds));
          },
          "seconds"_a, NoGil());
}

}  // namespace

void bind_engine(py::module_& room) {
  bind_batch(room);
  bind_assembler(room);
  bind_stats(room);
  bind_running(room);
  // The bytes of elements; returns the number of the first that is refused.
  room.def(
      "convert",
      [](ElementType from, const Array<std::uint8_t>& values, ElementType to,
         Array<std::uint8_t> out, std::size_t count) {
        const std::span bytes = std::as_bytes(view(values));
        return converter(from, to)(bytes.data(), writable_bytes(out).data(), count);
      },
      "from_type"_a, "values"_a, "to_type"_a, "out"_a.noconvert(), "count"_a);
}

}  // namespace sweephand
