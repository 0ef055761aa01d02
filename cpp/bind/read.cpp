// Files, columns, chunks and deserializers.
#include "bind/bind.hpp"
#include "bind/chunk_arrays.hpp"
#include "bind/sample_columns.hpp"
#include "read/byte_source.hpp"
#include "read/column.hpp"
#include "read/deserializer.hpp"
#include "read/extents.hpp"
#include "read/file.hpp"
#include "read/frames.hpp"
#include "read/mapped_offsets.hpp"
#include "run/physical_memory.hpp"

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Path = std::filesystem::path;
using Integers = std::optional<py::array_t<std::int64_t, py::array::c_style>>;
using Indices = std::optional<py::array_t<std::int32_t, py::array::c_style>>;

template <class Array>
auto data_or_null(const std::optional<Array>& array) {
  return array ? array->data() : nullptr;
}

template <class Array>
std::uint64_t size_or_none(const std::optional<Array>& array) {
  return array ? static_cast<std::uint64_t>(array->size()) : 0;
}

Column make_column(const std::optional<py::array>& values, const Integers& sample_offsets,
                   const Integers& element_offsets, const Indices& indices,
                   std::uint64_t element_bytes, std::uint64_t sample_elements, ElementType type,
                   const std::optional<std::shared_ptr<Extents>>& extents,
                   const std::optional<std::shared_ptr<MappedOffsets>>& mapped_offsets,
                   std::uint64_t num_samples) {
  const auto held = static_cast<std::uint64_t>(values ? values->nbytes() : 0);
  const std::byte* in_memory = extents ? (*extents)->in_memory() : nullptr;
  if (values) in_memory = static_cast<const std::byte*>(values->data());
  return bounded({.values = in_memory,
                  .sample_offsets = data_or_null(sample_offsets),
                  .element_offsets = data_or_null(element_offsets),
                  .indices = data_or_null(indices),
                  .element_bytes = element_bytes,
                  .sample_elements = sample_elements,
                  .type = type,
                  .extents = extents ? extents->get() : nullptr,
                  .mapped_offsets = mapped_offsets ? mapped_offsets->get() : nullptr},
                 num_samples,
                 {.value_bytes = extents ? (*extents)->num_bytes() : held,
                  .sample_offsets = size_or_none(sample_offsets),
                  .element_offsets = size_or_none(element_offsets),
                  .indices = size_or_none(indices)});
}

// Chunks that Python code makes.
class CallbackDeserializer final : public Deserializer {
 public:
  explicit CallbackDeserializer(py::function load) : load_(hold(std::move(load))) {}

  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override {
    const Gil gil;
    return call(*load_, chunk).cast<std::shared_ptr<Chunk>>();
  }

 private:
  std::shared_ptr<const py::function> load_;
};

// Sequences that Python code fetches.
class FetchingDeserializer final : public Deserializer {
 public:
  explicit FetchingDeserializer(py::function fetch) : fetch_(hold(std::move(fetch))) {}

  Access access() const noexcept override { return Access::kSequences; }

  std::shared_ptr<const Chunk> fetch(std::span<const std::uint64_t> sequences) override {
    const Gil gil;
    const auto numbers = to_numpy(std::vector(sequences.begin(), sequences.end()));
    return call(*fetch_, numbers).cast<std::shared_ptr<Chunk>>();
  }

 private:
  std::shared_ptr<const py::function> fetch_;
};

// Bytes that Python code reads into a memoryview.
class CallbackBytes final : public ByteSource {
 public:
  CallbackBytes(const Path& path, std::uint64_t size, py::function read_into)
      : path_(path.string()), size_(size), read_into_(hold(std::move(read_into))) {}

  const std::string& path() const noexcept override { return path_; }
  std::uint64_t size() const noexcept override { return size_; }

  void read(std::uint64_t offset, std::span<std::byte> out) const override {
    const Gil gil;
    const auto size = static_cast<py::ssize_t>(out.size());
    call(*read_into_, offset, py::memoryview::from_memory(out.data(), size));
  }

 private:
  std::string path_;
  std::uint64_t size_;
  std::shared_ptr<const py::function> read_into_;
};

void bind_files(py::module_& room) {
  room.def("physical_memory", &physical_memory);
  room.def(
      "empty_bytes",
      [](std::size_t size) {
        auto bytes = take_bytes(size);
        auto* const data = bytes.get();
        return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(size), data,
                                         keep(std::move(bytes)));
      },
      "size"_a);
  py::class_<FileTag>(room, "FileTag")
      .def(py::init<std::uint64_t, std::int64_t, std::uint64_t>(), "size"_a, "mtime_ns"_a,
           "inode"_a)
      .def_readonly("size", &FileTag::size)
      .def_readonly("mtime_ns", &FileTag::mtime_ns)
      .def_readonly("inode", &FileTag::inode);
  room.def(
      "look_at_all",
      [](const Array<std::uint8_t>& paths) {
        PathStatuses found = without_gil([&] { return look_at_all(view(paths)); });
        return to_arrays_of(std::move(found.modes), std::move(found.sizes),
                            std::move(found.mtimes_ns), std::move(found.devices),
                            std::move(found.inodes));
      },
      "paths"_a);
  py::class_<ByteSource, std::shared_ptr<ByteSource>>(room, "ByteSource")
      .def_property_readonly("size", &ByteSource::size);
  py::class_<CallbackBytes, ByteSource, std::shared_ptr<CallbackBytes>>(room, "CallbackBytes")
      .def(py::init<Path, std::uint64_t, py::function>(), "path"_a, "size"_a, "read_into"_a);
  py::class_<File, ByteSource, std::shared_ptr<File>>(room, "File")
      .def(py::init([](const Path& path) { return std::make_shared<File>(path.string()); }),
           "path"_a)
      .def(py::init([](const Path& path, const FileTag& tag) {
             return std::make_shared<File>(path.string(), tag);
           }),
           "path"_a, "tag"_a)
      .def_property_readonly("path", &File::path)
      .def_property_readonly("tag", &File::tag)
      .def(
          "read_into",
          [](const File& self, std::uint64_t offset, Array<std::uint8_t> out) {
            const std::span bytes = writable_bytes(out);
            without_gil([&] { self.read(offset, bytes); });
          },
          "offset"_a, "out"_a.noconvert());
}

void bind_extents(py::module_& room) {
  py::class_<ListedFile>(room, "ListedFile")
      .def(py::init([](const Path& path, const FileTag& tag) {
             return ListedFile{.path = path.string(), .tag = tag};
           }),
           "path"_a, "tag"_a);
  py::class_<Extents, std::shared_ptr<Extents>>(room, "Extents")
      .def(py::init<std::vector<ListedFile>, std::span<const std::uint64_t>,
                    std::span<const std::uint64_t>, std::span<const std::uint64_t>>(),
           "files"_a, "numbers"_a, "offsets"_a, "bytes"_a)
      .def(
          "gather",
          [](const Extents& self, const Array<std::uint64_t>& offsets,
             const Array<std::uint64_t>& sizes, Array<std::uint8_t> out) {
            const std::span bytes = writable_bytes(out);
            without_gil([&] { gather(self, view(offsets), view(sizes), bytes); });
          },
          "offsets"_a, "sizes"_a, "out"_a.noconvert())
      .def_property_readonly("num_bytes", &Extents::num_bytes);
  py::class_<MappedOffsets, std::shared_ptr<MappedOffsets>>(room, "MappedOffsets")
      .def_static(
          "map",
          [](const ListedFile& file, std::uint64_t begin, std::uint64_t count) {
            return MappedOffsets::map(file, begin, count);
          },
          "file"_a, "begin"_a, "count"_a)
      .def_property_readonly("array",
                             [](const std::shared_ptr<MappedOffsets>& self) {
                               const std::span offsets = self->offsets();
                               py::array_t<std::int64_t> array(
                                   static_cast<py::ssize_t>(offsets.size()), offsets.data(),
                                   keep(self));
                               array.attr("setflags")("write"_a = false);
                               return array;
                             })
      .def(
          "read",
          [](const MappedOffsets& self, const py::function& read) {
            py::object result;
            self.read([&] { result = read(); });
            return result;
          },
          "read"_a);
  py::class_<MappedSizes, Sizes, std::shared_ptr<MappedSizes>>(room, "MappedSizes")
      .def(py::init<std::shared_ptr<MappedOffsets>, std::string>(), "offsets"_a, "stream"_a);
}

void bind_chunks(py::module_& room) {
  py::class_<Column>(room, "Column")
      .def(py::init(&make_column), "values"_a.noconvert(), "sample_offsets"_a.noconvert(),
           "element_offsets"_a.noconvert(), "indices"_a.noconvert(), "element_bytes"_a,
           "sample_elements"_a, "type"_a, "extents"_a, "mapped_offsets"_a, "num_samples"_a);

  // `owner` keeps the memory of the columns.
  py::class_<Chunk, std::shared_ptr<Chunk>>(room, "Chunk")
      .def(py::init([](std::vector<Column> columns, std::uint64_t num_sequences,
                       std::uint64_t bytes, py::object owner,
                       std::vector<std::uint64_t> skipped) {
             return std::make_shared<Chunk>(Chunk{.columns = std::move(columns),
                                                  .num_sequences = num_sequences,
                                                  .skipped = std::move(skipped),
                                                  .bytes = bytes,
                                                  .owner = hold(std::move(owner))});
           }),
           "columns"_a, "num_sequences"_a, "bytes"_a, "owner"_a, "skipped"_a);
  bind_sample_columns(room);
}

void bind_deserializers(py::module_& room) {
  py::class_<Deserializer, std::shared_ptr<Deserializer>>(room, "Deserializer")
      .def(
          "load",
          [](Deserializer& self, std::uint64_t chunk) {
            return to_arrays(without_gil([&] { return self.load(chunk); }));
          },
          "chunk"_a)
      .def(
          "load_chunk",
          [](Deserializer& self, std::uint64_t chunk) {
            return std::const_pointer_cast<Chunk>(
                without_gil([&] { return self.load(chunk); }));
          },
          "chunk"_a);
  py::class_<ResidentDeserializer, Deserializer, std::shared_ptr<ResidentDeserializer>>(
      room, "ResidentDeserializer")
      .def(py::init([](std::shared_ptr<Chunk> corpus) {
             return std::make_shared<ResidentDeserializer>(std::move(corpus));
           }),
           "corpus"_a);
  py::class_<ExtentChunks, Deserializer, std::shared_ptr<ExtentChunks>>(room, "ExtentChunks")
      .def(py::init([](std::shared_ptr<Chunk> corpus, const Array<std::uint64_t>& starts) {
             return std::make_shared<ExtentChunks>(std::move(corpus), to_vector(starts));
           }),
           "corpus"_a, "starts"_a);
  py::class_<FrameDeserializer, Deserializer, std::shared_ptr<FrameDeserializer>>(
      room, "FrameDeserializer")
      .def(py::init([](std::shared_ptr<Deserializer> sequences, std::vector<std::string> names,
                       const Corpus& corpus, py::function report) {
             return std::make_shared<FrameDeserializer>(std::move(sequences), std::move(names),
                                                        corpus, report_to(std::move(report)));
           }),
           "sequences"_a, "names"_a, "corpus"_a, "report"_a);
  py::class_<CallbackDeserializer, Deserializer, std::shared_ptr<CallbackDeserializer>>(
      room, "CallbackDeserializer")
      .def(py::init<py::function>(), "load"_a);
  py::class_<FetchingDeserializer, Deserializer, std::shared_ptr<FetchingDeserializer>>(
      room, "FetchingDeserializer")
      .def(py::init<py::function>(), "fetch"_a);
}

void bind_segments(py::module_& room) {
  room.def(
      "map_segment",
      [](int descriptor, std::uint64_t size) {
        Segment segment = without_gil([&] { return Segment(descriptor, size); });
        auto* const data = reinterpret_cast<std::uint8_t*>(segment.bytes().data());
        return py::array_t<std::uint8_t>(static_cast<py::ssize_t>(size), data,
                                         keep(std::move(segment)));
      },
      "descriptor"_a, "size"_a);
}

}  // namespace

void bind_read(py::module_& room) {
  bind_files(room);
  bind_extents(room);
  bind_chunks(room);
  bind_deserializers(room);
  bind_segments(room);
}

}  // namespace sweephand
