// The formats: their indexes and deserializers.
#include "base/element.hpp"
#include "bind/bind.hpp"
#include "bind/chunk_arrays.hpp"
#include "formats/crc32c.hpp"
#include "formats/ctf.hpp"
#include "formats/ctf_column.hpp"
#include "formats/ctf_index.hpp"
#include "formats/example.hpp"
#include "formats/json_lines.hpp"
#include "formats/ledger.hpp"
#include "formats/numbers.hpp"
#include "formats/record_frames.hpp"
#include "formats/table_rows.hpp"
#include "formats/tar_samples.hpp"
#include "formats/tfrecord.hpp"
#include "read/byte_source.hpp"
#include "read/column.hpp"
#include "read/deserializer.hpp"
#include "read/file.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

using Path = std::filesystem::path;

// The bytes without the readable padding after them.
std::span<const std::byte> without_padding(const Array<std::uint8_t>& bytes,
                                           std::size_t padding) {
  const auto all = std::as_bytes(view(bytes));
  if (all.size() < padding) throw std::invalid_argument("the bytes need their padding");
  return all.first(all.size() - padding);
}

std::span<const char> to_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

py::list list_of(const std::vector<std::string>& names) {
  py::list list;
  for (const std::string& name : names) list.append(py::bytes(name));
  return list;
}

void bind_ledger(py::module_& room) {
  py::class_<Item>(room, "Item")
      .def_property_readonly("reason", [](const Item& self) { return describe(self); })
      .def_property_readonly(
          "file", [](const Item& self) -> std::optional<Path> { return self.place.file; })
      .def_property_readonly("offset", [](const Item& self) { return self.place.offset; })
      .def_property_readonly("stream", [](const Item& self) { return self.place.stream; })
      .def_property_readonly("sequence", [](const Item& self) { return self.place.sequence; })
      .def_property_readonly("line", [](const Item& self) { return self.place.line; })
      .def_readonly("caused_by", &Item::caused_by);
  py::class_<Ledger>(room, "Ledger")
      .def(py::init<std::uint64_t>(), "max_errors"_a)
      .def("check", &Ledger::check)
      .def_property_readonly("items", &Ledger::items)
      .def_property_readonly("offsets", as_array(&Ledger::offsets));
}

void bind_ctf_format(py::module_& room) {
  py::class_<CtfStream>(room, "CtfStream")
      .def(py::init<std::string, std::uint64_t, bool, ElementType, bool>(), "field"_a,
           "dimension"_a, "is_sparse"_a, "type"_a, "defines_mb_size"_a);
  py::class_<CtfFormat>(room, "CtfFormat")
      .def(py::init<std::vector<CtfStream>, bool, bool, bool, std::uint64_t>(), "streams"_a,
           "skip_sequence_ids"_a, "allow_blank_lines"_a, "allow_nonfinite"_a,
           "max_line_bytes"_a);
  py::class_<CtfStart>(room, "CtfStart")
      .def_readonly("offset", &CtfStart::offset)
      .def_readonly("ignore_ids", &CtfStart::ignore_ids);
}

void bind_ctf_index(py::module_& room) {
  py::class_<CtfIndex, std::shared_ptr<CtfIndex>>(room, "CtfIndex")
      .def(py::init(
               [](std::uint64_t max_errors) { return CtfIndex{.ledger = Ledger(max_errors)}; }),
           "max_errors"_a)
      .def("append", &CtfIndex::append, "part"_a, "start"_a)
      .def_readonly("ledger", &CtfIndex::ledger)
      .def_readonly("num_met", &CtfIndex::num_met)
      .def_readonly("num_indices", &CtfIndex::num_indices)
      .def_readonly("is_single", &CtfIndex::is_single)
      .def_property_readonly(
          "keys", [](const CtfIndex& self) { return copy_to_numpy(self.sequences.keys); })
      .def_property_readonly(
          "offsets", [](const CtfIndex& self) { return copy_to_numpy(self.sequences.offsets); })
      .def_property_readonly(
          "lines", [](const CtfIndex& self) { return copy_to_numpy(self.sequences.lines); })
      .def_property_readonly(
          "sizes", [](const CtfIndex& self) { return copy_to_numpy(self.sequences.sizes); })
      .def_property_readonly("skipped", [](const CtfIndex& self) {
        return copy_to_numpy(self.sequences.skipped);
      });
  room.def("ctf_start", &find_start, "file"_a, "format"_a);
  room.def("ctf_part", &find_part, "file"_a, "format"_a, "start"_a, "offset"_a, NoGil());
  room.def("ctf_index", &index_part, "file"_a, "format"_a, "start"_a, "begin"_a, "end"_a,
           "max_errors"_a, NoGil());
}

void bind_ctf_reader(py::module_& room) {
  py::class_<CtfFile>(room, "CtfFile")
      .def(py::init([](const Path& path, const FileTag& tag, bool ignore_ids) {
             return CtfFile{path.string(), tag, ignore_ids};
           }),
           "path"_a, "tag"_a, "ignore_ids"_a);
  py::class_<CtfPiece>(room, "CtfPiece")
      .def_readonly("file", &CtfPiece::file)
      .def_readonly("offset", &CtfPiece::offset)
      .def_readonly("bytes", &CtfPiece::bytes)
      .def_readonly("first_line", &CtfPiece::first_line)
      .def_readonly("num_sequences", &CtfPiece::num_sequences)
      .def_readonly("num_items", &CtfPiece::num_items);
  py::class_<CtfChunks, std::shared_ptr<CtfChunks>>(room, "CtfChunks")
      .def(py::init([](const Array<std::uint64_t>& offsets, const Array<std::uint64_t>& lines,
                       const Array<std::int64_t>& starts, const Array<std::uint64_t>& sizes,
                       const Array<std::uint64_t>& item_offsets,
                       const Array<std::int64_t>& item_starts, std::uint64_t most_bytes,
                       const CtfChunks::Entries& entries) {
             const CtfPlaces places{view(offsets), view(lines),        view(starts),
                                    view(sizes),   view(item_offsets), view(item_starts)};
             return without_gil(
                 [&] { return std::make_shared<CtfChunks>(places, most_bytes, entries); });
           }),
           "offsets"_a, "lines"_a, "starts"_a, "sizes"_a, "item_offsets"_a, "item_starts"_a,
           "most_bytes"_a, "entries"_a)
      .def(
          "of",
          [](const CtfChunks& self, std::uint64_t chunk) {
            const auto pieces = self.of(chunk);
            return std::vector(pieces.begin(), pieces.end());
          },
          "chunk"_a)
      .def_property_readonly("sequences", &CtfChunks::sequences);
  py::class_<CtfReader>(room, "CtfReader")
      .def(py::init<const CtfFormat&, std::uint64_t>(), "format"_a, "num_bytes"_a,
           py::keep_alive<1, 2>())
      .def(
          "read",
          [](CtfReader& self, const Path& file, const Array<std::uint8_t>& text,
             const CtfPiece& piece, bool ignore_ids) {
            const HeldBytes held(file.string(), piece.offset, std::as_bytes(view(text)));
            without_gil([&] { self.read(held, piece, ignore_ids); });
          },
          "file"_a, "text"_a, "piece"_a, "ignore_ids"_a)
      .def("take", &CtfReader::take);
  py::class_<CtfDeserializer, Deserializer, std::shared_ptr<CtfDeserializer>>(room,
                                                                              "CtfDeserializer")
      .def(py::init<CtfFormat, std::vector<CtfFile>, std::shared_ptr<CtfChunks>>(), "format"_a,
           "files"_a, "chunks"_a);
}

void bind_record_frames(py::module_& room) {
  room.def(
      "crc32c", [](const py::buffer& bytes) { return crc32c(to_bytes(bytes.request())); },
      "bytes"_a);
  room.def("mask_crc", &mask_crc, "crc"_a);
  py::class_<FrameFinder>(room, "FrameFinder")
      .def(py::init([](const Path& file) { return FrameFinder(file.string()); }), "file"_a)
      .def(
          "feed",
          [](FrameFinder& self, std::uint64_t offset, std::span<const std::uint8_t> bytes) {
            self.feed(offset, std::as_bytes(bytes));
          },
          "offset"_a, "bytes"_a, NoGil())
      .def("finish", &FrameFinder::finish, "size"_a)
      .def_property_readonly("wanted", &FrameFinder::wanted)
      .def_property_readonly("num_records",
                             [](const FrameFinder& self) { return self.offsets().size() - 1; })
      .def("num_whole", &FrameFinder::num_whole, "size"_a)
      .def("offset_of", &FrameFinder::offset_of, "record"_a)
      .def_property_readonly("offsets", as_array(&FrameFinder::offsets));
}

void bind_examples(py::module_& room) {
  py::enum_<FeatureKind>(room, "FeatureKind")
      .value("none", FeatureKind::kNone)
      .value("bytes", FeatureKind::kBytes)
      .value("float", FeatureKind::kFloat)
      .value("int64", FeatureKind::kInt64);
  py::class_<FoundKind>(room, "FoundKind")
      .def_readonly("kind", &FoundKind::kind)
      .def_readonly("step_values", &FoundKind::step_values);
  py::class_<ExampleStream>(room, "ExampleStream")
      .def(py::init<std::string, FeatureKind, std::uint64_t, bool, bool, bool>(), "key"_a,
           "kind"_a, "sample_elements"_a, "is_sequence"_a, "is_required"_a, "may_narrow"_a);
  room.attr("EXAMPLE_PADDING") = kExamplePadding;
  room.def(
      "decode_records",
      [](const std::vector<ExampleStream>& streams, const Array<std::uint8_t>& bytes,
         const Path& file, std::uint64_t offset, std::uint64_t first, bool verify_checksums,
         Ledger& ledger, const std::optional<Array<std::int64_t>>& offsets) {
        const RecordRun run{
            .bytes = without_padding(bytes, kExamplePadding),
            .place = {.file = file.string(), .offset = offset, .sequence = first},
            .offsets = view(offsets)};
        return to_arrays(without_gil(
            [&] { return decode_records(streams, run, verify_checksums, ledger); }));
      },
      "streams"_a, "bytes"_a, "file"_a, "offset"_a, "first"_a, "verify_checksums"_a, "ledger"_a,
      "offsets"_a);
  room.def(
      "decode_file_records",
      [](const std::vector<ExampleStream>& streams, const ByteSource& file,
         std::uint64_t offset, std::uint64_t size, std::uint64_t first, bool verify_checksums,
         Ledger& ledger) {
        return to_arrays(without_gil([&] {
          return decode_records(streams, file, offset, size, first, verify_checksums, ledger);
        }));
      },
      "streams"_a, "file"_a, "offset"_a, "size"_a, "first"_a, "verify_checksums"_a, "ledger"_a);
  room.def(
      "find_kinds",
      [](const std::vector<std::string>& keys, const Array<std::uint8_t>& bytes,
         bool verify_checksums, const std::optional<Array<std::int64_t>>& offsets) {
        const RecordRun run{.bytes = without_padding(bytes, kExamplePadding),
                            .place = {},
                            .offsets = view(offsets)};
        return without_gil([&] { return find_kinds(keys, run, verify_checksums); });
      },
      "keys"_a, "bytes"_a, "verify_checksums"_a, "offsets"_a);
}

void bind_json(py::module_& room) {
  room.attr("JSON_PADDING") = kJsonPadding;
  py::class_<JsonKey>(room, "JsonKey")
      .def(py::init<std::string, ElementType>(), "name"_a, "wanted"_a);
  // The columns of a text without its padding; None when something is not ordinary.
  room.def(
      "read_json_lines",
      [](const std::vector<JsonKey>& keys,
         const Array<std::uint8_t>& padded) -> std::optional<py::list> {
        const auto text = without_padding(padded, kJsonPadding);
        const auto chunk = without_gil([&] { return read_json_lines(keys, to_text(text)); });
        return chunk ? std::optional(to_arrays(chunk)) : std::nullopt;
      },
      "keys"_a, "text"_a);
}

void bind_text(py::module_& room) {
  room.def(
      "split_lines",
      [](const Array<std::uint8_t>& text) {
        TextLines lines = without_gil([&] { return split_lines(view(text)); });
        return to_arrays_of(std::move(lines.bytes), std::move(lines.offsets));
      },
      "text"_a);
  py::enum_<CellFault>(room, "CellFault")
      .value("empty", CellFault::kEmpty)
      .value("word", CellFault::kWord)
      .value("shape", CellFault::kShape)
      .value("decimal", CellFault::kDecimal)
      .value("range", CellFault::kRange)
      .value("inexact", CellFault::kInexact)
      .value("no_flag", CellFault::kNoFlag);
  // The bytes of the numbers, and the fault of every cell, or 0.
  room.def(
      "read_text_numbers",
      [](const Array<std::uint8_t>& text, const Array<std::int64_t>& offsets,
         ElementType wanted) {
        TextNumbers found = without_gil([&] {
          return read_text_numbers(to_text(std::as_bytes(view(text))), view(offsets), wanted);
        });
        return to_arrays_of(std::move(found.values), std::move(found.faults));
      },
      "text"_a, "offsets"_a, "wanted"_a);
}

void bind_table_rows(py::module_& room) {
  py::class_<TableForm>(room, "TableForm")
      .def(py::init<char, std::optional<char>>(), "delimiter"_a, "quote"_a);
  py::class_<RowFinder>(room, "RowFinder")
      .def(py::init<TableForm>(), "form"_a)
      .def(
          "pass_row",
          [](RowFinder& self, const py::bytes& text) { return self.pass_row(text); }, "text"_a)
      .def(
          "pass_all",
          [](RowFinder& self, const py::bytes& text) {
            const std::string_view bytes = text;
            return without_gil([&] { return self.pass_all(bytes); });
          },
          "text"_a)
      .def_property_readonly("is_between_rows", [](const RowFinder& self) {
        return self.state() == RowFinder::State::kRow;
      });
  // The bytes and offsets of each column, lines, damage by rows, and the end.
  room.def(
      "read_table",
      [](const Array<std::uint8_t>& text, TableForm form, std::size_t num_columns,
         const std::vector<std::size_t>& wanted, std::size_t max_bytes) {
        const auto bytes = to_text(std::as_bytes(view(text)));
        TableCells found = without_gil([&] {
          return read_table({bytes.data(), bytes.size()}, form, num_columns, wanted, max_bytes);
        });
        py::list columns;
        for (TableCells::Column& one : found.columns)
          columns.append(to_arrays_of(std::move(one.bytes), std::move(one.offsets)));
        return py::make_tuple(columns, to_numpy(std::move(found.lines)), found.wrong,
                              found.end);
      },
      "text"_a, "form"_a, "num_columns"_a, "wanted"_a, "max_bytes"_a);
}

void bind_tar(py::module_& room) {
  room.def(
      "is_tar_header",
      [](const py::buffer& head) { return is_tar_header(to_bytes(head.request())); }, "head"_a);
  py::class_<TarSamples>(room, "TarSamples")
      .def(py::init([](std::shared_ptr<ByteSource> source,
                       std::map<std::string, std::uint64_t> heads) {
             return std::make_unique<TarSamples>(std::move(source), std::move(heads));
           }),
           "source"_a, "heads"_a)
      .def("walk", &TarSamples::walk, "end"_a, NoGil())
      .def_property_readonly("at", &TarSamples::at)
      .def_property_readonly("keys", [](const TarSamples& s) { return list_of(s.keys()); })
      .def_property_readonly("begins", as_array(&TarSamples::begins))
      .def_property_readonly("faults",
                             [](const TarSamples& self) {
                               py::list faults;
                               for (const TarFault& fault : self.faults())
                                 faults.append(py::make_tuple(fault.sample, fault.offset,
                                                              py::bytes(fault.reason)));
                               return faults;
                             })
      .def_property_readonly("fields", [](const TarSamples& s) { return list_of(s.fields()); })
      .def(
          "field",
          [](const TarSamples& self, const Path& name) {
            TarField found = self.field(name.string());
            return to_arrays_of(std::move(found.offsets), std::move(found.sizes),
                                std::move(found.heads), std::move(found.head_starts));
          },
          "name"_a);
}

}  // namespace

void bind_formats(py::module_& room) {
  bind_ledger(room);
  bind_ctf_format(room);
  bind_ctf_index(room);
  bind_ctf_reader(room);
  bind_record_frames(room);
  bind_examples(room);
  bind_json(room);
  bind_text(room);
  bind_table_rows(room);
  bind_tar(room);
}

}  // namespace sweephand
