#include "order/block.hpp"

#include "base/error.hpp"
#include "base/mix.hpp"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

namespace sweephand {

namespace {

std::string chunk_names(const Corpus& corpus, std::span<const std::uint64_t> chunks) {
  const std::uint64_t first = chunks.empty() ? 0 : chunks.front();
  const std::uint64_t last = chunks.empty() ? corpus.chunks.num_chunks() - 1 : chunks.back();
  return std::to_string(first) + (first == last ? "" : " to " + std::to_string(last));
}

[[noreturn]] void refuse_empty(const Corpus& corpus, std::span<const std::uint64_t> chunks) {
  throw DataError("a sequence of chunk " + chunk_names(corpus, chunks) +
                  " has no sample; every one has at least one");
}

// Planners rely on it: a place that they look for exists.
void check_samples(const Corpus& corpus, std::span<const std::uint64_t> chunks,
                   std::uint64_t found, std::uint64_t said) {
  if (found == said) return;
  throw DataError("the sequences of chunk " + chunk_names(corpus, chunks) + " have " +
                  std::to_string(found) + " samples, the index says " + std::to_string(said));
}

// Counts of the samples and of the empty sequences of a block.
struct SizeSum {
  std::uint64_t num_samples = 0;
  std::uint64_t num_empty = 0;

  void add(std::span<const std::uint32_t> sizes) noexcept {
    std::uint32_t empty = 0;
    for (const std::uint32_t size : sizes) {
      num_samples += size;
      empty += size == 0 ? 1 : 0;
    }
    num_empty += empty;
  }

  void check(const Corpus& corpus, std::span<const std::uint64_t> chunks,
             std::uint64_t said) const {
    if (num_empty != 0) refuse_empty(corpus, chunks);
    check_samples(corpus, chunks, num_samples, said);
  }
};

}  // namespace

Block::Block(std::shared_ptr<const Corpus> corpus, std::vector<std::uint64_t> chunks,
             std::optional<std::uint64_t> shuffle_key, std::uint64_t sweep)
    : corpus_(std::move(corpus)),
      chunks_(std::move(chunks)),
      common_size_(corpus_->sizes->common()),
      shuffle_key_(shuffle_key),
      sweep_(sweep),
      order_(shuffle_key ? nullptr : corpus_->order.get()) {
  if (chunks_.empty()) {
    num_sequences_ = corpus_->chunks.num_sequences();
    num_samples_ = corpus_->chunks.num_samples();
    return;
  }
  first_rank_.reserve(chunks_.size() + 1);
  shifts_.reserve(chunks_.size());
  for (const std::uint64_t chunk : chunks_) {
    first_rank_.push_back(num_sequences_);
    shifts_.push_back(corpus_->chunks.first_sequence(chunk) - num_sequences_);
    num_sequences_ += corpus_->chunks.sequences_in(chunk);
    num_samples_ += corpus_->chunks.samples_in(chunk);
  }
  first_rank_.push_back(num_sequences_);
  chunk_guess_ = EvenGuess(chunks_.size(), num_sequences_);
}

bool Block::remembers_sizes() const {
  return common_size_ == 0 &&
         (num_sequences_ <= Permutation::kTableSize || !corpus_->sizes->in_memory());
}

bool Block::is_dealt() const {
  return shuffle_key_ && common_size_ == 0 && num_sequences_ <= Permutation::kTableSize;
}

void Block::make_list() const {
  if (list_) return;
  if (is_dealt() && corpus_->sizes->in_memory()) {
    list_ = std::make_unique<List>(List{.dealt = read_list()});
  } else if (remembers_sizes()) {
    const Block* const self = this;
    make_lists(std::span(&self, 1));
  } else {
    make_list({});
  }
}

void Block::make_lists(std::span<const Block* const> blocks) {
  std::vector<const Block*> wanted;
  std::vector<SequenceRun> runs;
  std::uint64_t count = 0;
  for (const Block* const block : blocks) {
    if (block->list_ || !block->remembers_sizes()) continue;
    wanted.push_back(block);
    block->add_runs(runs);
    count += block->num_sequences_;
  }
  if (wanted.empty()) return;
  // NOLINTNEXTLINE(*-avoid-c-arrays): not to be zeroed
  const auto buffer = std::make_unique_for_overwrite<std::uint32_t[]>(count);
  std::span<std::uint32_t> stored(buffer.get(), count);
  if (!runs.empty()) wanted[0]->corpus_->sizes->read_runs(runs, stored);
  for (const Block* const block : wanted) {
    block->make_list(stored.first(block->num_sequences_));
    stored = stored.subspan(block->num_sequences_);
  }
}

// From memory, by pieces that stay in the processor's nearest cache: an array of all sizes
// would take half as many fresh pages again as the list, and a fresh page costs as much as
// reading it.
DealtList Block::read_list() const {
  DealtList list(num_sequences_, *shuffle_key_, num_samples_);
  std::vector<SequenceRun> runs;
  add_runs(runs);
  std::array<std::uint32_t, 1024> sizes{};
  SizeSum sum;
  std::uint64_t rank = 0;
  for (const SequenceRun& run : runs) {
    for (std::uint64_t done = 0; done < run.count; done += sizes.size()) {
      const std::span part =
          std::span(sizes).first(std::min<std::uint64_t>(sizes.size(), run.count - done));
      corpus_->sizes->read(run.first + done, part);
      sum.add(part);
      list.set_sizes(rank, part);
      rank += part.size();
    }
  }
  sum.check(*corpus_, chunks_, num_samples_);
  return list;
}

// In storage order.
void Block::add_runs(std::vector<SequenceRun>& runs) const {
  if (chunks_.empty()) runs.push_back({.first = 0, .count = num_sequences_});
  for (const std::uint64_t chunk : chunks_) {
    const std::uint64_t count = corpus_->chunks.sequences_in(chunk);
    if (count != 0)
      runs.push_back({.first = corpus_->chunks.first_sequence(chunk), .count = count});
  }
}

// `stored` are the sizes in storage order, if they are kept.
void Block::make_list(std::span<const std::uint32_t> stored) const {
  if (list_) return;  // a block may be wanted twice
  if (is_dealt()) {
    SizeSum sum;
    sum.add(stored);
    sum.check(*corpus_, chunks_, num_samples_);
    DealtList dealt(num_sequences_, *shuffle_key_, num_samples_);
    dealt.set_sizes(0, stored);
    list_ = std::make_unique<List>(List{.dealt = std::move(dealt)});
    return;
  }
  List list;
  if (shuffle_key_) list.permutation.emplace(num_sequences_, *shuffle_key_);
  if (remembers_sizes()) remember_sizes(list, stored);
  if (common_size_ == 0) {
    remember_starts(list);
    check_samples(*corpus_, chunks_, list.starts.back(), num_samples_);
  }
  list_ = std::make_unique<List>(std::move(list));
}

// Sizes are read in storage order, a run per chunk, and dealt into list order: one pass over
// memory in order instead of one random look-up per sequence.
void Block::remember_sizes(List& list, std::span<const std::uint32_t> stored) const {
  // NOLINTNEXTLINE(*-avoid-c-arrays): not to be zeroed
  list.sizes = std::make_unique_for_overwrite<std::uint32_t[]>(num_sequences_);
  std::array<std::uint64_t, kStride> ranks{};
  for (std::uint64_t place = 0; place < num_sequences_; place += kStride) {
    const std::span part = std::span(ranks).first(std::min(kStride, num_sequences_ - place));
    base_ranks_at(list, place, part);
    for (std::size_t i = 0; i < part.size(); ++i) list.sizes[place + i] = stored[part[i]];
  }
}

void Block::remember_starts(List& list) const {
  list.starts.reserve(num_sequences_ / kStride + 2);
  std::array<std::uint32_t, kStride> sizes{};
  std::uint64_t start = 0;
  for (std::uint64_t place = 0; place < num_sequences_; place += kStride) {
    list.starts.push_back(start);
    const std::span part = std::span(sizes).first(std::min(kStride, num_sequences_ - place));
    sizes_at(list, place, part);
    bool is_any_empty = false;
    for (const std::uint32_t size : part) {
      is_any_empty |= size == 0;
      start += size;
    }
    if (is_any_empty) refuse_empty(*corpus_, chunks_);
  }
  list.starts.push_back(start);
}

std::uint64_t Block::to_base_rank(std::uint64_t sequence) const {
  if (chunks_.empty()) return sequence;
  const std::uint64_t chunk = corpus_->chunks.chunk_of(sequence);
  const auto found = std::lower_bound(chunks_.begin(), chunks_.end(), chunk);
  const auto c = static_cast<std::size_t>(found - chunks_.begin());
  return first_rank_[c] + (sequence - corpus_->chunks.first_sequence(chunk));
}

// Checks a rank from an order of the data's own.
void Block::check_rank(std::uint64_t rank) const {
  if (rank < num_sequences_) return;
  throw DataError("the order of sweep " + std::to_string(sweep_) + " names sequence " +
                  std::to_string(rank) + " of " + std::to_string(num_sequences_));
}

void Block::base_ranks_at(const List& list, std::uint64_t first,
                          std::span<std::uint64_t> out) const {
  if (list.permutation) {
    list.permutation->fill(first, out);
  } else if (order_ != nullptr) {
    order_->fill(sweep_, first, out);
    for (const std::uint64_t rank : out) check_rank(rank);
  } else {
    std::iota(out.begin(), out.end(), first);
  }
}

void Block::sequences_at(const List& list, std::uint64_t first,
                         std::span<std::uint64_t> out) const {
  base_ranks_at(list, first, out);
  to_sequences(out);
}

void Block::to_sequences(std::span<std::uint64_t> ranks) const {
  if (chunks_.empty()) return;
  if (chunks_.size() == 1) {
    const std::uint64_t shift = shifts_[0];
    for (std::uint64_t& number : ranks) number += shift;
    return;
  }
  const EvenGuess guess = chunk_guess_;  // a copy, which writes to `ranks` cannot alias
  const std::span starts = first_rank_;
  for (std::uint64_t& number : ranks) number += shifts_[guess.find(starts, number)];
}

void Block::sizes_at(const List& list, std::uint64_t first,
                     std::span<std::uint32_t> out) const {
  if (common_size_ != 0) {
    std::fill(out.begin(), out.end(), common_size_);
  } else if (list.sizes) {
    std::copy_n(list.sizes.get() + first, out.size(), out.begin());
  } else {
    std::array<std::uint64_t, kStride> sequences{};
    const std::span part = std::span(sequences).first(out.size());
    sequences_at(list, first, part);
    corpus_->sizes->gather(part, out);
  }
}

void Block::fetch(std::uint64_t place) const noexcept {
  if (!list_) return;
  if (list_->dealt) list_->dealt->fetch(place);
  if (list_->permutation) list_->permutation->fetch(place);
  if (list_->sizes) __builtin_prefetch(list_->sizes.get() + place);
}

// Ranks and sizes are stored in the needed order: one pass instead of two.
void Block::fill_of_dealt(std::span<const std::uint64_t> items, std::uint16_t lane,
                          std::span<PlannedSequence> out) const {
  const auto fill_by = [&](const auto& shift_of) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::uint64_t rank = DealtList::rank_of(items[i]);
      out[i] = {.sequence = rank + shift_of(rank),
                .size = DealtList::size_of(items[i]),
                .lane = lane,
                .sweep = 0};
    }
  };
  if (chunks_.size() < 2) {
    const std::uint64_t shift = chunks_.empty() ? 0 : shifts_[0];
    fill_by([shift](std::uint64_t /*rank*/) { return shift; });
  } else {
    fill_by([&, guess = chunk_guess_](std::uint64_t rank) {
      return shifts_[guess.find(first_rank_, rank)];
    });
  }
}

void Block::fill(std::uint64_t first, std::uint16_t lane,
                 std::span<PlannedSequence> out) const {
  List& list = this->list();
  if (list.dealt) {
    fill_of_dealt(list.dealt->items(first, out.size()), lane, out);
    return;
  }
  std::array<std::uint64_t, kStride> sequences{};
  std::array<std::uint32_t, kStride> sizes{};
  for (std::size_t done = 0; done < out.size(); done += kStride) {
    const std::size_t count = std::min<std::size_t>(kStride, out.size() - done);
    const std::span numbers = std::span(sequences).first(count);
    const std::span part = std::span(sizes).first(count);
    sequences_at(list, first + done, numbers);
    if (common_size_ != 0 || list.sizes) {
      sizes_at(list, first + done, part);
    } else {
      corpus_->sizes->gather(numbers, part);
    }
    for (std::size_t i = 0; i < count; ++i) {
      out[done + i] = {.sequence = numbers[i], .size = part[i], .lane = lane, .sweep = 0};
    }
  }
}

BlockPlace Block::first_at_or_after(std::uint64_t sample) const {
  if (common_size_ != 0) {
    const std::uint64_t place =
        std::min(sample / common_size_ + (sample % common_size_ != 0), num_sequences_);
    return {.place = place, .start = place * common_size_};
  }
  List& list = this->list();
  if (list.dealt) return list.dealt->first_at_or_after(sample);
  const std::span<const std::uint64_t> starts = list.starts;
  if (sample >= starts.back()) return {.place = num_sequences_, .start = starts.back()};
  const std::size_t stride = last_at_or_before(starts, sample);
  BlockPlace found{.place = stride * kStride, .start = starts[stride]};
  std::array<std::uint32_t, kStride> sizes{};
  const std::span part =
      std::span(sizes).first(std::min(kStride, num_sequences_ - found.place));
  sizes_at(list, found.place, part);
  for (const std::uint32_t size : part) {  // to its end if the sizes have changed since
    if (found.start >= sample) break;
    found.start += size;
    ++found.place;
  }
  return found;
}

BlockPlace Block::find(std::uint64_t sequence) const {
  const std::uint64_t base_rank = to_base_rank(sequence);
  std::uint64_t place = base_rank;
  List& list = this->list();
  if (list.dealt) return list.dealt->find(base_rank);
  if (list.permutation) place = list.permutation->place(base_rank);
  if (order_ != nullptr) {
    place = order_->place(sweep_, base_rank);
    check_rank(place);
  }
  if (common_size_ != 0) return {.place = place, .start = place * common_size_};
  const std::uint64_t stride = place / kStride;
  std::array<std::uint32_t, kStride> sizes{};
  const std::span part = std::span(sizes).first(place % kStride);
  sizes_at(list, stride * kStride, part);
  return {.place = place,
          .start = std::accumulate(part.begin(), part.end(), list.starts[stride])};
}

}  // namespace sweephand
