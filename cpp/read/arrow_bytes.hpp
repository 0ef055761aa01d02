// Bytes that another library holds as an Arrow array: two structs of C, as
// https://arrow.apache.org/docs/format/CDataInterface.html defines them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

namespace sweephand {

extern "C" {
struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};
}

struct ForeignBytes {
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner;  // keeps them
};

// The bytes of an array of lists of four bytes each, which is taken over. Throws
// std::invalid_argument when it is another one, has missing entries or was taken before; it
// then stays where it is.
ForeignBytes take_fours(const ArrowSchema& schema, ArrowArray& array);

}  // namespace sweephand
