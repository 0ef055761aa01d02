// The contents of a file in CNTK's text format: its sequences, and their errors.
//
//   | BOM | part 0          | part 1          | part 2    |     parts begin with a sequence, so
//         begin             find_part()                         that threads can scan them
//         | chunk 0   | chunk 1 | chunk 2   | chunk 3     |     chunks do not depend on the
//         parts
#pragma once

#include "formats/ctf_scanner.hpp"
#include "formats/ledger.hpp"
#include "read/byte_source.hpp"

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

struct CtfStart {
  std::uint64_t offset = 0;  // behind the byte order mark; the size of a file without content
  bool ignore_ids = false;   // every line is a sequence
};

// Looks at the first bytes. Throws DataError when the file is in UTF-16 or UTF-32.
CtfStart find_start(const ByteSource& file, const CtfFormat& format);

// The begin of the first sequence that certainly begins at `offset` or after it; the file's
// size if there is none.
std::uint64_t find_part(const ByteSource& file, const CtfFormat& format, const CtfStart& start,
                        std::uint64_t offset);

struct CtfIndex {
  CtfSequences sequences;
  Ledger ledger;
  std::uint64_t num_lines = 0;
  std::vector<std::uint64_t> num_met;  // how often each stream was met
  std::vector<std::uint64_t>
      num_indices;  // per stream: the least dimension that its indices fit into; 0 if dense
  std::vector<bool> is_single;  // whether each has one sample in every sequence

  // Adds the part of the file that follows.
  void append(const CtfIndex& part, const CtfStart& start);
};

// The index of the part [begin, end), which are ends of the file or from find_part. Lines are
// counted from the part's first. Ends early when more than `max_errors` are found, without
// throwing; see the ledger. Throws DataError for errors that no budget allows: no sequence id
// at all, or a line beyond the limit.
CtfIndex index_part(const ByteSource& file, const CtfFormat& format, const CtfStart& start,
                    std::uint64_t begin, std::uint64_t end, std::uint64_t max_errors);

}  // namespace sweephand
