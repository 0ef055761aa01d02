#include "formats/mlf.hpp"

#include "base/error.hpp"
#include "formats/ctf_message.hpp"
#include "formats/scp.hpp"
#include "formats/text_parts.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sweephand {
namespace {

constexpr std::string_view kHeader = "#!MLF!#";
constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
constexpr std::uint64_t kMostFrames = std::uint64_t{1} << 24;  // of an utterance: 46 hours

struct Run {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::int32_t number = 0;
};

// A time, without the fraction that certain writers add.
std::optional<std::uint64_t> to_time(std::string_view text) {
  const std::size_t point = std::min(text.find('.'), text.size());
  const std::string_view fraction = text.substr(std::min(point + 1, text.size()));
  if (fraction.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return to_number<std::uint64_t>(text.substr(0, point));
}

class MlfParser {
 public:
  MlfParser(std::span<const char> text, const MlfFormat& format)
      : text_(to_view(text)), rest_(text_), format_(format) {
    for (std::size_t i = 0; i < format.states.size(); ++i)
      states_.emplace(format.states[i], static_cast<std::int32_t>(i));
  }

  MlfUtterances parse() {
    if (rest_.starts_with(kByteOrderMark)) rest_.remove_prefix(kByteOrderMark.size());
    if (trimmed(next_line()) != kHeader)
      throw DataError("the file does not begin with #!MLF!#, as master label files do",
                      {.offset = 0, .line = 1});
    while (!rest_.empty()) {
      const std::string_view line = trimmed(next_line());
      if (!line.empty()) parse_utterance(line);
    }
    return std::move(found_);
  }

 private:
  std::string_view next_line() {
    offset_ = static_cast<std::uint64_t>(rest_.data() - text_.data());
    ++line_;
    return take_line(rest_);
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw DataError(reason, {.offset = offset_, .line = line_});
  }

  void parse_utterance(std::string_view name) {
    if (name.size() < 3 || name.front() != '"' || name.back() != '"')
      fail("here stands " + quote(name) + ", and the name of an utterance was expected");
    std::string_view path = name.substr(1, name.size() - 2);
    if (path.starts_with("*/")) path.remove_prefix(2);
    std::string key = without_suffix(path);
    if (!known_.emplace(key, found_.keys.size()).second)
      fail("the utterance " + quote(key) + " is there twice");
    found_.keys.push_back(std::move(key));
    runs_.clear();
    std::optional<MlfFault> fault;
    const std::uint64_t utterance = found_.keys.size() - 1;
    bool is_ended = false;
    while (!rest_.empty() && !is_ended) {
      const std::string_view line = trimmed(next_line());
      is_ended = line == ".";
      if (is_ended || line.empty() || fault) continue;
      if (const std::string reason = add_run(line); !reason.empty())
        fault = MlfFault{utterance, line_, offset_, reason};
    }
    if (!fault) {
      std::string reason = is_ended ? to_frames() : "the file ends within the utterance";
      if (!reason.empty()) fault = MlfFault{utterance, line_, offset_, std::move(reason)};
    }
    found_.num_runs.push_back(0);
    if (fault) {
      found_.faults.push_back(std::move(*fault));
      return;
    }
    for (const Run& run : runs_) {
      found_.run_frames.push_back(static_cast<std::uint32_t>(run.end - run.begin));
      found_.run_classes.push_back(run.number);
    }
    found_.num_runs.back() = static_cast<std::uint32_t>(runs_.size());
  }

  // Takes a line, and returns its fault, if any.
  std::string add_run(std::string_view line) {
    const std::string_view whole = line;
    const auto begin = to_time(take_word(line));
    const auto end = to_time(take_word(line));
    const std::string_view state = take_word(line);
    if (!begin || !end || state.empty())
      return "a line is BEGIN END STATE ..., here stands " + quote(whole);
    if (*end < *begin) return "the times do not ascend: " + quote(whole);
    std::optional<std::int32_t> number;
    if (states_.empty()) {
      number = to_number<std::int32_t>(take_word(line));
      if (!number || *number < 0)
        return "without label_mapping_file= the fourth word is the number of the class, here "
               "stands " +
               quote(whole);
    } else if (const auto at = states_.find(std::string(state)); at != states_.end()) {
      number = at->second;
    } else {
      return "the state " + quote(state) + " is not in the label mapping file";
    }
    if (format_.num_classes != 0 && std::cmp_greater_equal(*number, format_.num_classes))
      return "the class " + std::to_string(*number) + " is beyond the " +
             std::to_string(format_.num_classes) + " that are declared";
    runs_.push_back({.begin = *begin, .end = *end, .number = *number});
    return {};
  }

  // Converts times to frames, and returns their fault, if any.
  std::string to_frames() {
    if (runs_.empty()) return "the utterance has no line";
    const std::uint64_t frame = format_.frame_units;
    const bool is_time = std::ranges::any_of(
        runs_, [&](const Run& run) { return run.end - run.begin + 1 >= frame; });
    std::uint64_t at = 0;
    for (Run& run : runs_) {
      for (std::uint64_t* const time : {&run.begin, &run.end}) {
        if (is_time) *time = *time / frame + (*time % frame >= frame - frame / 2 ? 1 : 0);
      }
      if (run.begin != at)
        return "the runs do not follow one another: one begins at frame " +
               std::to_string(run.begin) + ", and " + std::to_string(at) + " was expected";
      at = run.end;
    }
    if (at > kMostFrames) return "the utterance has " + std::to_string(at) + " frames";
    return at == 0 ? "the utterance has no frame" : "";
  }

  std::string_view text_;
  std::string_view rest_;
  const MlfFormat& format_;
  std::unordered_map<std::string, std::int32_t> states_;
  std::unordered_map<std::string, std::uint64_t> known_;
  std::vector<Run> runs_;
  std::uint64_t offset_ = 0;
  std::uint64_t line_ = 0;
  MlfUtterances found_;
};

}  // namespace

MlfUtterances parse_mlf(std::span<const char> text, const MlfFormat& format) {
  return MlfParser(text, format).parse();
}

}  // namespace sweephand
