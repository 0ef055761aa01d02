// Master label files of HTK (MLF), with the result of an aligner: the states of the frames of
// every utterance, run by run.
//
//   #!MLF!#
//   "*/an4/cen5-fjam-b.lab"
//   0 1200000 sil_s2 -812.1 sil       begin, end in 100 ns; state; what follows is passed over
//   1200000 1500000 ah_s2
//   .
//
// CNTK also reads begin and end in frames: they are taken as such in an utterance no run of
// which is as long as a frame in 100 ns. Without names of states a run's class is its fourth
// word.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

struct MlfFault {
  std::uint64_t utterance = 0;
  std::uint64_t line = 0;
  std::uint64_t offset = 0;
  std::string reason;
};

struct MlfUtterances {
  std::vector<std::string> keys;
  std::vector<std::uint32_t> num_runs;    // of each utterance; 0 of one that is damaged
  std::vector<std::uint32_t> run_frames;  // of each run
  std::vector<std::int32_t> run_classes;
  std::vector<MlfFault> faults;  // one of each damaged utterance
};

struct MlfFormat {
  std::vector<std::string> states;  // the class is the number of the state; none: the 4th word
  std::uint64_t num_classes = 0;    // 0 if it is not said
  std::uint64_t frame_units = 100000;  // of 100 ns
};

// Throws DataError when there is no header, a line is in the place of a name, or a name occurs
// twice.
MlfUtterances parse_mlf(std::span<const char> text, const MlfFormat& format);

}  // namespace sweephand
