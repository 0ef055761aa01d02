// The content of a corpus: sizes, chunks, fingerprints.
#include "bind/bind.hpp"
#include "index/chunk_table.hpp"
#include "index/corpus.hpp"
#include "index/sizes.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sweephand {
namespace {

// Copies the numbers of a callback, and checks their count.
template <class T>
void copy_all(const Array<T>& numbers, std::span<T> out) {
  if (view(numbers).size() != out.size()) {
    throw DataError("asked for " + std::to_string(out.size()) + " numbers, got " +
                    std::to_string(view(numbers).size()));
  }
  std::ranges::copy(view(numbers), out.begin());
}

// Sizes from Python code: read(firsts, counts) of runs of sequences.
class CallbackSizes final : public Sizes {
 public:
  explicit CallbackSizes(py::function read) : read_(hold(std::move(read))) {}

  bool in_memory() const noexcept override { return false; }

  void read(std::uint64_t first, std::span<std::uint32_t> out) const override {
    if (out.empty()) return;
    const SequenceRun run{.first = first, .count = out.size()};
    read_runs(std::span(&run, 1), out);
  }

  void read_runs(std::span<const SequenceRun> runs,
                 std::span<std::uint32_t> out) const override {
    std::vector<std::uint64_t> firsts(runs.size());
    std::vector<std::uint64_t> counts(runs.size());
    std::ranges::transform(runs, firsts.begin(), &SequenceRun::first);
    std::ranges::transform(runs, counts.begin(), &SequenceRun::count);
    const Gil gil;
    const py::object sizes =
        call(*read_, to_numpy(std::move(firsts)), to_numpy(std::move(counts)));
    copy_all(sizes.cast<Array<std::uint32_t>>(), out);
  }

 private:
  std::shared_ptr<const py::function> read_;
};

// An order from Python code: fill(sweep, first, count) and place(sweep, sequence).
class CallbackOrder final : public GivenOrder {
 public:
  CallbackOrder(py::function fill, py::function place)
      : fill_(hold(std::move(fill))), place_(hold(std::move(place))) {}

  void fill(std::uint64_t sweep, std::uint64_t first,
            std::span<std::uint64_t> out) const override {
    const Gil gil;
    copy_all(call(*fill_, sweep, first, out.size()).cast<Array<std::uint64_t>>(), out);
  }

  std::uint64_t place(std::uint64_t sweep, std::uint64_t sequence) const override {
    const Gil gil;
    return call(*place_, sweep, sequence).cast<std::uint64_t>();
  }

 private:
  std::shared_ptr<const py::function> fill_;
  std::shared_ptr<const py::function> place_;
};

void bind_sizes(py::module_& room) {
  py::class_<Sizes, std::shared_ptr<Sizes>>(room, "Sizes")
      .def("sums", &Sizes::sums, "starts"_a, NoGil());
  py::class_<CommonSize, Sizes, std::shared_ptr<CommonSize>>(room, "CommonSize")
      .def(py::init<std::uint32_t>(), "size"_a);
  py::class_<StoredSizes, Sizes, std::shared_ptr<StoredSizes>>(room, "StoredSizes")
      .def(py::init([](const Array<std::uint32_t>& sizes) {
             return std::make_shared<StoredSizes>(to_vector(sizes));
           }),
           "sizes"_a);
  py::class_<JoinedSizes, Sizes, std::shared_ptr<JoinedSizes>>(room, "JoinedSizes")
      .def(py::init([](const std::vector<std::shared_ptr<Sizes>>& sizes,
                       const std::vector<std::uint64_t>& counts) {
             std::vector<JoinedSizes::Part> parts;
             parts.reserve(sizes.size());
             for (std::size_t i = 0; i < sizes.size(); ++i)
               parts.push_back({sizes[i], counts.at(i)});
             return std::make_shared<JoinedSizes>(std::move(parts));
           }),
           "sizes"_a, "counts"_a);
  py::class_<OffsetSizes, Sizes, std::shared_ptr<OffsetSizes>>(room, "OffsetSizes")
      .def(py::init([](const Array<std::int64_t>& offsets) {
             return std::make_shared<OffsetSizes>(view(offsets), OffsetSizes::Origin{},
                                                  hold(py::object(offsets)));
           }),
           "offsets"_a)
      .def(py::init(
               [](const Array<std::int64_t>& offsets, std::string stream, std::string file) {
                 return std::make_shared<OffsetSizes>(
                     view(offsets), OffsetSizes::Origin{std::move(stream), std::move(file)},
                     hold(py::object(offsets)));
               }),
           "offsets"_a, "stream"_a, "file"_a);
  py::class_<CallbackSizes, Sizes, std::shared_ptr<CallbackSizes>>(room, "CallbackSizes")
      .def(py::init<py::function>(), "read"_a);
  room.def("check_ends", &check_ends, "offsets"_a, "num_samples"_a);
  room.def("common_size", &common_size, "offsets"_a);
  room.def("check_offsets", &check_offsets, "offsets"_a, "num_samples"_a);
  room.def("is_any_empty", &is_any_empty, "offsets"_a);
}

void bind_tables(py::module_& room) {
  py::class_<Starts>(room, "Starts")
      .def(py::init([](const Array<std::uint64_t>& chunk_sequences) {
             return Starts(view(chunk_sequences), "sequences");
           }),
           "chunk_sequences"_a)
      .def_static(
          "of_samples",
          [](const Array<std::uint64_t>& chunk_samples) {
            return Starts(view(chunk_samples), "samples");
          },
          "chunk_samples"_a)
      .def_static(
          "even",
          [](std::uint64_t num_sequences, std::uint64_t chunk_size) {
            return Starts::even(num_sequences, chunk_size, "sequences");
          },
          "num_sequences"_a, "chunk_size"_a)
      .def(
          "equals", [](const Starts& self, const Starts& other) { return self == other; },
          "other"_a)
      .def("__len__", &Starts::num_counts)
      .def_property_readonly("total", &Starts::total)
      .def("counts", as_array(&Starts::counts))
      .def("offsets", as_array(&Starts::offsets))
      .def("bounds", &Starts::bounds, "chunk"_a)
      .def("take", as_array(&Starts::take), "chunks"_a)
      .def("find", as_array(&Starts::find), "sequences"_a);
}

void bind_corpus(py::module_& room) {
  py::class_<Corpus, std::shared_ptr<Corpus>>(room, "Corpus")
      .def(py::init([](const Array<std::uint64_t>& chunk_sequences,
                       const Array<std::uint64_t>& chunk_samples,
                       const std::shared_ptr<Sizes>& sizes) {
             auto corpus = std::make_shared<Corpus>(
                 Corpus{ChunkTable(view(chunk_sequences), view(chunk_samples)), sizes});
             check(*corpus);
             return corpus;
           }),
           "chunk_sequences"_a, "chunk_samples"_a, "sizes"_a)
      .def(py::init([](const Starts& sequences, const Starts& samples,
                       const std::shared_ptr<Sizes>& sizes) {
             auto corpus =
                 std::make_shared<Corpus>(Corpus{ChunkTable(sequences, samples), sizes});
             check(*corpus);
             return corpus;
           }),
           "chunk_starts"_a, "chunk_samples"_a, "sizes"_a)
      .def(
          "ordered_by",
          [](const Corpus& self, std::shared_ptr<GivenOrder> order) {
            return std::make_shared<Corpus>(
                Corpus{self.chunks, self.sizes, std::move(order), self.masks});
          },
          "order"_a)
      .def(
          "masked_by",
          [](const Corpus& self, const Array<std::int64_t>& offsets,
             const Array<std::uint32_t>& bounds, const Array<double>& weights) {
            auto masks = std::make_shared<LossMasks>(to_vector(offsets), to_vector(bounds),
                                                     to_vector(weights));
            auto corpus = std::make_shared<Corpus>(
                Corpus{self.chunks, self.sizes, self.order, std::move(masks)});
            check(*corpus);
            return corpus;
          },
          "offsets"_a, "bounds"_a, "weights"_a)
      .def_property_readonly("num_chunks",
                             [](const Corpus& c) { return c.chunks.num_chunks(); })
      .def_property_readonly("num_sequences",
                             [](const Corpus& c) { return c.chunks.num_sequences(); })
      .def_property_readonly("num_samples",
                             [](const Corpus& c) { return c.chunks.num_samples(); })
      .def_property_readonly("common_size", [](const Corpus& c) { return c.sizes->common(); })
      .def("fingerprint_sizes", &fingerprint_sizes, NoGil())
      .def("fingerprint_chunks", [](const Corpus& c) { return fingerprint_chunks(c.chunks); })
      .def(
          "sizes",
          [](const Corpus& corpus, std::uint64_t first, std::uint64_t count) {
            return to_numpy_without_gil([&] {
              std::vector<std::uint32_t> sizes(count);
              corpus.sizes->read(first, sizes);
              return sizes;
            });
          },
          "first"_a, "count"_a);
}

}  // namespace

void bind_index(py::module_& room) {
  bind_tables(room);
  bind_sizes(room);
  const py::class_<GivenOrder, std::shared_ptr<GivenOrder>> order_class(room, "GivenOrder");
  py::class_<CallbackOrder, GivenOrder, std::shared_ptr<CallbackOrder>>(room, "CallbackOrder")
      .def(py::init<py::function, py::function>(), "fill"_a, "place"_a);
  bind_corpus(room);
  py::class_<LongSequences>(room, "LongSequences")
      .def_readonly("num_sequences", &LongSequences::num_sequences)
      .def_readonly("num_samples", &LongSequences::num_samples)
      .def_readonly("size", &LongSequences::size)
      .def_readonly("sequence", &LongSequences::sequence);
  room.def("find_long", &find_long, "corpus"_a, "limit"_a, NoGil());
}

}  // namespace sweephand
