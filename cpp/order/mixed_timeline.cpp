#include "order/mixed_timeline.hpp"

#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kMaxSequences = std::uint64_t{1} << 47;
constexpr std::uint64_t kMost = std::numeric_limits<std::uint64_t>::max();

constexpr std::size_t kAtMost = 4096;  // sequences that are merged at a time

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

MixedCursor::MixedCursor(std::shared_ptr<const std::vector<TimelinePart>> corpora,
                         std::vector<std::uint64_t> first_sequences, std::uint64_t time)
    : corpora_(std::move(corpora)),
      first_sequences_(std::move(first_sequences)),
      own_(corpora_->size()),
      keys_(corpora_->size()) {
  for (std::size_t number = 0; number < own_.size(); ++number) {
    const TimelinePart& corpus = (*corpora_)[number];
    own_[number].limit = corpus.limit;
    own_[number].even_share = corpus.rate.even_share();
    own_[number].first_sequence = first_sequences_[number];
  }
  // Every sequence that begins before `time` has a key of `time` or less. The excess of
  // delivered samples over the key depends on lengths of sequences, which are guessed.
  std::uint64_t back = 64;
  for (const TimelinePart& one : *corpora_) {
    const ChunkTable& chunks = one.timeline->corpus().chunks;
    back += 4 * (chunks.num_samples() / chunks.num_sequences());
  }
  while (true) {
    place(time - std::min(time, back));
    if (time_ <= time || time <= back) break;
    back *= 8;
  }
  for (std::uint32_t number = 0; number < own_.size(); ++number)
    keys_.set(number, next_key(number));
  merge();
  while (time_ < time && !sweep_done()) pop(1, ahead().front().size);
}

// Moves every corpus past its sequences of smaller keys.
void MixedCursor::place(std::uint64_t key) {
  time_ = 0;
  for (std::size_t number = 0; number < own_.size(); ++number) {
    const TimelinePart& corpus = (*corpora_)[number];
    Own& own = own_[number];
    own.time = least_own_time(corpus, key);
    if (own.time < corpus.limit) {
      own.cursor = std::make_unique<SweepCursor>(
          corpus.timeline->sweep(own.time / corpus.timeline->num_samples()), own.time);
      own.time = own.cursor->time();
    }
    time_ += own.time;
  }
}

std::uint64_t MixedCursor::next_key(std::uint32_t number) const {
  const Own& own = own_[number];
  if (own.time >= own.limit) return Rate::kNever;
  if (own.even_share != 0) return Rate::reached_evenly(own.time, own.even_share);
  return (*corpora_)[number].rate.reached(own.time);
}

// Goes on to sequences that are now ahead of the cursor; false if all are merged.
bool MixedCursor::look_ahead(Own& own) {
  if (own.cursor->sweep_done()) own.cursor->enter_next_sweep();
  const std::span<const PlannedSequence> ahead = own.cursor->ahead();
  own.next = ahead.data() + own.merged;
  own.end = ahead.data() + ahead.size();
  own.sweep = static_cast<std::uint16_t>(own.cursor->sweep());
  return own.next != own.end;
}

// Merges until a corpus must look further ahead, which it does once its sequences are handed
// over.
void MixedCursor::merge() {
  ahead_.clear();
  number_of_.clear();
  front_ = 0;
  while (keys_.least_key() != KeyTree::kNever && ahead_.size() < wanted_) {
    const std::uint32_t number = keys_.least();
    Own& own = own_[number];
    if (own.next == own.end && !look_ahead(own)) break;
    PlannedSequence next = *own.next++;
    ++own.merged;
    // It is read after other corpora had their turn, and would come from memory then.
    __builtin_prefetch(own.next);
    own.time += next.size;
    next.sequence += own.first_sequence;
    next.sweep = own.sweep;
    ahead_.push_back(next);
    number_of_.push_back(static_cast<std::uint16_t>(number));
    keys_.set(number, next_key(number));
  }
  place_of_.resize(ahead_.size());
  wanted_ = std::min(2 * wanted_, kAtMost);
}

void MixedCursor::enter_next_sweep() {
  throw std::logic_error("a mixture that has ended has no further sweep");
}

void MixedCursor::pop(std::size_t count, std::uint64_t samples) {
  time_ += samples;
  for (const std::size_t end = front_ + count; front_ < end;) {
    const std::uint16_t number = number_of_[front_];
    const std::size_t begin = front_;
    std::uint64_t own_samples = 0;
    while (front_ < end && number_of_[front_] == number) own_samples += ahead_[front_++].size;
    own_[number].cursor->pop(front_ - begin, own_samples);
    own_[number].merged -= static_cast<std::uint32_t>(front_ - begin);
  }
  if (front_ == ahead_.size()) merge();
}

void MixedCursor::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  for (const Own& own : own_) {
    if (own.cursor) own.cursor->open_blocks(blocks);
  }
}

void MixedCursor::add_blocks(std::span<const PlannedSequence> first, std::uint32_t taker,
                             std::vector<std::shared_ptr<const Block>>& blocks) {
  for (std::size_t i = 0; i < first.size(); ++i) {
    SweepCursor& cursor = *own_[number_of_[front_ + i]].cursor;
    place_of_[front_ + i] = cursor.add_block(first[i], taker, blocks);
  }
}

std::vector<std::uint64_t> MixedCursor::own_times() const {
  std::vector<std::uint64_t> times;
  times.reserve(own_.size());
  // Merged sequences are not handed over yet.
  for (const Own& own : own_) times.push_back(own.time);
  for (std::size_t i = front_; i < ahead_.size(); ++i) times[number_of_[i]] -= ahead_[i].size;
  return times;
}

}  // namespace sweephand
