#include "order/mixed_timeline.hpp"

#include "base/mix.hpp"
#include "order/mixed_cursor.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <stdexcept>
#include <string>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxSequences = std::uint64_t{1} << 47;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

}  // namespace

std::uint64_t least_own_time(const TimelinePart& corpus, std::uint64_t key) {
  if (key == 0 || corpus.rate.birth() >= key) return 0;
  return std::min(corpus.limit, corpus.rate.due(std::min(key - 1, Rate::kMaxTime)) + 1);
}

MixedTimeline::MixedTimeline(std::shared_ptr<const Corpus> corpus,
                             const OrderSettings& settings, std::vector<TimelinePart> corpora,
                             bool tells_sweeps)
    : Timeline(std::move(corpus), settings), first_sequences_{0}, tells_sweeps_(tells_sweeps) {
  if (corpora.empty() || corpora.size() > kMaxCorpora)
    throw std::invalid_argument("a mixture has 1 to 65,535 corpora, got " +
                                std::to_string(corpora.size()));
  std::uint64_t num_chunks = 0;
  for (TimelinePart& one : corpora) {
    one.first_chunk = num_chunks;
    const ChunkTable& chunks = one.timeline->corpus().chunks;
    first_sequences_.push_back(first_sequences_.back() + chunks.num_sequences());
    num_chunks += chunks.num_chunks();
    const SweepExtent own = one.timeline->extent();
    const std::uint64_t sweeps = kEndless / own.samples;
    extent_.sequences = std::max(extent_.sequences, sweeps * own.sequences);
    // Many more than samples, if a filter leaves little: this many are enough.
    const std::uint64_t blocks = own.blocks > kMost / sweeps ? kMost : sweeps * own.blocks;
    extent_.blocks = std::max(extent_.blocks, blocks);
  }
  extent_.samples = kEndless;
  if (first_sequences_.back() != corpus_->chunks.num_sequences() ||
      num_chunks != corpus_->chunks.num_chunks())
    throw std::invalid_argument("the corpora of a mixture are other ones than the whole has");
  if (first_sequences_.back() >= kMaxSequences)
    throw std::invalid_argument("a mixture may have at most 2^47 - 1 sequences");
  corpora_ = std::make_shared<const std::vector<TimelinePart>>(std::move(corpora));
}

std::unique_ptr<Cursor> MixedTimeline::cursor(std::uint64_t time) const {
  return std::make_unique<MixedCursor>(corpora_, first_sequences_, time);
}

// A power of two, so that parts begin at multiples of their length.
std::uint64_t MixedTimeline::num_parts(std::uint64_t wanted) const {
  return wanted < kEndless ? std::bit_ceil(wanted) : kEndless;
}

std::uint64_t MixedTimeline::find(std::uint64_t sequence, std::uint64_t sweep) const {
  const auto next = std::ranges::upper_bound(first_sequences_, sequence);
  const auto number = static_cast<std::uint32_t>(next - first_sequences_.begin() - 1);
  const TimelinePart& own = (*corpora_)[number];
  const std::uint64_t own_time = own.timeline->find(sequence - first_sequences_[number], sweep);
  const std::uint64_t time = own_time < own.limit ? time_of(number, own_time) : Rate::kNever;
  if (time == Rate::kNever)
    throw std::invalid_argument("sweep " + std::to_string(sweep) +
                                " of this sequence's corpus never comes to it");
  return time;
}

std::uint64_t MixedTimeline::time_of(std::uint32_t number, std::uint64_t own_time) const {
  const std::uint64_t key = (*corpora_)[number].rate.reached(own_time);
  if (key == Rate::kNever) return key;
  std::uint64_t time = own_time;
  for (std::uint32_t other = 0; other < corpora_->size(); ++other) {
    // Of equal keys the first corpus comes first.
    if (other == number) continue;
    const TimelinePart& corpus = (*corpora_)[other];
    const std::uint64_t least = least_own_time(corpus, key + (other < number ? 1 : 0));
    time = checked_add(
        time, least < corpus.limit ? corpus.timeline->start_at_or_after(least) : least);
  }
  return time;
}

std::uint64_t MixedTimeline::free_key(std::uint64_t time) const {
  const std::vector<std::uint64_t> own = own_times(time);
  std::uint64_t first = Rate::kNever;  // key of the next sequence
  std::uint64_t begin = 0;             // and its nominal time
  for (std::size_t c = 0; c < own.size(); ++c) {
    const TimelinePart& corpus = (*corpora_)[c];
    if (own[c] < corpus.limit) first = std::min(first, corpus.rate.reached(own[c]));
    begin += own[c];
  }
  if (first == Rate::kNever) return first;
  return first <= begin ? time : first + 1;
}

std::vector<TimelinePart> MixedTimeline::parts(std::uint64_t limit) const {
  std::vector<TimelinePart> parts = *corpora_;
  for (TimelinePart& one : parts)
    one.limit = std::min(one.limit, one.rate.due(std::min(limit, Rate::kMaxTime)) + 1);
  return parts;
}

std::vector<std::uint64_t> MixedTimeline::own_times(std::uint64_t time) const {
  return MixedCursor(corpora_, first_sequences_, time).own_times();
}

}  // namespace sweephand
