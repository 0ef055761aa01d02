#include "formats/ctf_pieces.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <utility>

namespace sweephand {
namespace {

std::uint32_t narrow(std::uint64_t number) {
  if (number <= std::numeric_limits<std::uint32_t>::max())
    return static_cast<std::uint32_t>(number);
  throw std::invalid_argument("a piece of a text file has 2^32 errors, or is of as many files");
}

std::vector<CtfPiece> to_pieces(const CtfPieces::Columns& columns) {
  const std::size_t count = columns.files.size();
  const auto fits = [&](auto column) { return column.size() == count; };
  if (!fits(columns.begins) || !fits(columns.ends) || !fits(columns.first_lines) ||
      !fits(columns.num_sequences) || !(columns.num_items.empty() || fits(columns.num_items)))
    throw std::invalid_argument("columns of pieces differ in length");
  std::vector<CtfPiece> pieces(count);
  for (std::size_t i = 0; i < count; ++i) {
    if (columns.ends[i] < columns.begins[i])
      throw std::invalid_argument("a piece ends before it begins");
    pieces[i] = {.offset = columns.begins[i],
                 .bytes = columns.ends[i] - columns.begins[i],
                 .first_line = columns.first_lines[i],
                 .num_sequences = columns.num_sequences[i],
                 .file = narrow(columns.files[i]),
                 .num_items = columns.num_items.empty() ? 0 : narrow(columns.num_items[i])};
  }
  return pieces;
}

// How many pieces each chunk has.
std::vector<std::uint64_t> join_small(std::span<const CtfPiece> pieces,
                                      std::uint64_t most_bytes) {
  std::vector<std::uint64_t> counts;
  std::uint64_t num_bytes = 0;
  for (const CtfPiece& piece : pieces) {
    const bool is_full = num_bytes > most_bytes || piece.bytes > most_bytes - num_bytes;
    if (counts.empty() || is_full) {
      counts.push_back(0);
      num_bytes = 0;
    }
    ++counts.back();
    num_bytes += piece.bytes;
  }
  return counts;
}

}  // namespace

CtfPieces::CtfPieces(const Columns& columns, std::uint64_t most_bytes)
    : pieces_(to_pieces(columns)), chunks_(join_small(pieces_, most_bytes), "pieces") {}

CtfPieces::CtfPieces(std::vector<CtfPiece> pieces)
    : pieces_(std::move(pieces)), chunks_(Starts::even(pieces_.size(), 1, "pieces")) {}

std::span<const CtfPiece> CtfPieces::of(std::uint64_t chunk) const {
  const auto [begin, end] = chunks_.bounds(chunk);
  return all().subspan(begin, end - begin);
}

Starts CtfPieces::sequences() const {
  std::vector<std::uint64_t> counts(num_chunks());
  for (std::uint64_t chunk = 0; chunk < counts.size(); ++chunk) {
    for (const CtfPiece& piece : of(chunk)) counts[chunk] += piece.num_sequences;
  }
  return {counts, "sequences"};
}

}  // namespace sweephand
