// A small fuzz driver: mutates the inputs of a corpus, for a bounded time and number of them,
// and the same for the same seed.
//
//   fuzz_ctf CORPUS_FOLDER SECONDS [SEED [INPUTS]]
//
// The input of the moment is kept in the file <program>.input, also when the program dies of
// it. Give it to the program as the only argument to run it once more.
#pragma once

#include <cstddef>
#include <functional>
#include <span>

namespace sweephand {

// Bytes of an input; the target may read nothing beyond.
using Input = std::span<const std::byte>;

// Returns the exit code of the program. The target aborts where a promise is broken.
int fuzz(int argc, char** argv, const std::function<void(Input)>& target);

}  // namespace sweephand
