// The formats of CNTK's users beside its text: HTK's files, and CNTK's binary format.
#include "bind/bind.hpp"
#include "bind/chunk_arrays.hpp"
#include "formats/cbf.hpp"
#include "formats/htk.hpp"
#include "formats/mlf.hpp"
#include "formats/scp.hpp"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {
namespace {

std::span<const char> text_of(const Array<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(bytes.size())};
}

// Texts that may be any bytes.
py::list to_python(const std::vector<std::string>& texts) {
  py::list list;
  for (const std::string& text : texts) list.append(py::bytes(text));
  return list;
}

void bind_htk(py::module_& room) {
  room.attr("HTK_HEADER_BYTES") = kHtkHeaderBytes;
  py::class_<HtkHeader>(room, "HtkHeader")
      .def_readonly("is_big_endian", &HtkHeader::is_big_endian)
      .def_readonly("is_compressed", &HtkHeader::is_compressed)
      .def_readonly("num_frames", &HtkHeader::num_frames)
      .def_readonly("period", &HtkHeader::period)
      .def_readonly("frame_bytes", &HtkHeader::frame_bytes)
      .def_readonly("dimension", &HtkHeader::dimension)
      .def_readonly("begin", &HtkHeader::begin)
      .def_readonly("kind", &HtkHeader::kind);
  room.def(
      "parse_htk_header",
      [](const py::buffer& head, std::uint64_t file_bytes) {
        return parse_htk_header(to_bytes(head.request()), file_bytes);
      },
      "head"_a, "file_bytes"_a);
  room.def(
      "read_htk_frames",
      [](const Array<std::uint8_t>& bytes, bool is_big_endian, std::uint64_t dimension,
         const Array<std::uint8_t>& scale, const Array<std::int64_t>& lengths,
         std::uint64_t left, std::uint64_t right) {
        return to_numpy_without_gil([&] {
          const HtkCoding coding{
              .is_big_endian = is_big_endian,
              .dimension = dimension,
              .scale = read_htk_scale(std::as_bytes(view(scale)), is_big_endian)};
          return read_htk_frames(std::as_bytes(view(bytes)), coding, view(lengths), left,
                                 right);
        });
      },
      "bytes"_a, "is_big_endian"_a, "dimension"_a, "scale"_a, "lengths"_a, "left"_a, "right"_a);
  room.def(
      "parse_scp",
      [](const Array<std::uint8_t>& text) {
        ScpEntries entries = without_gil([&] { return parse_scp(text_of(text)); });
        return py::make_tuple(to_python(entries.keys), to_python(entries.paths),
                              to_numpy(std::move(entries.numbers)),
                              to_numpy(std::move(entries.firsts)),
                              to_numpy(std::move(entries.lengths)));
      },
      "text"_a);
}

void bind_mlf(py::module_& room) {
  room.def(
      "parse_mlf",
      [](const Array<std::uint8_t>& text, const std::vector<std::string>& states,
         std::uint64_t num_classes, std::uint64_t frame_units) {
        MlfUtterances found = without_gil([&] {
          return parse_mlf(
              text_of(text),
              {.states = states, .num_classes = num_classes, .frame_units = frame_units});
        });
        py::list faults;
        for (const MlfFault& fault : found.faults)
          faults.append(
              py::make_tuple(fault.utterance, fault.line, fault.offset, fault.reason));
        return py::make_tuple(to_python(found.keys), to_numpy(std::move(found.num_runs)),
                              to_numpy(std::move(found.run_frames)),
                              to_numpy(std::move(found.run_classes)), faults);
      },
      "text"_a, "states"_a, "num_classes"_a, "frame_units"_a);
}

void bind_cbf(py::module_& room) {
  py::class_<CbfStream>(room, "CbfStream")
      .def(py::init<std::string, bool, bool, bool, std::uint64_t>(), "name"_a, "is_sparse"_a,
           "is_double"_a, "is_wanted"_a, "dimension"_a);
  room.def(
      "read_cbf_chunk",
      [](const Array<std::uint8_t>& bytes, std::uint64_t num_sequences,
         const std::vector<CbfStream>& streams) {
        return to_arrays(without_gil([&] {
          return read_cbf_chunk(std::as_bytes(view(bytes)), num_sequences, streams);
        }));
      },
      "bytes"_a, "num_sequences"_a, "streams"_a);
}

}  // namespace

void bind_speech(py::module_& room) {
  bind_htk(room);
  bind_mlf(room);
  bind_cbf(room);
}

}  // namespace sweephand
