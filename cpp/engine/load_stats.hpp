// Time and bytes of loading.
#pragma once

#include "run/work_time.hpp"

#include <cstdint>

namespace sweephand {

struct LoadStats {
  std::uint64_t chunks_loaded = 0;
  std::uint64_t chunk_hits = 0;
  std::uint64_t bytes_loaded = 0;
  std::uint64_t bytes_held = 0;  // by chunks that are kept for later minibatches
  WorkTime load;                 // of chunks, or of the sequences of a minibatch

  LoadStats& operator+=(const LoadStats& other) noexcept {
    chunks_loaded += other.chunks_loaded;
    chunk_hits += other.chunk_hits;
    bytes_loaded += other.bytes_loaded;
    bytes_held += other.bytes_held;
    load += other.load;
    return *this;
  }
};

}  // namespace sweephand
