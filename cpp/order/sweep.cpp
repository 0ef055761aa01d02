#include "order/sweep.hpp"

#include "base/mix.hpp"
#include "order/score_order.hpp"
#include "order/search.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

namespace sweephand {
namespace {

constexpr std::uint64_t kChunkOrder = 1;  // the purposes of a key: docs/order.md, section 13
constexpr std::uint64_t kBlockShuffle = 2;
constexpr std::uint64_t kBlockDraws = 8;
constexpr std::uint64_t kChunkDraws = 9;

// Sequences of a block. A larger block is read for a while, and made only once.
constexpr std::uint64_t kMostDealt = std::uint64_t{1} << 16;

}  // namespace

std::uint64_t block_chunks(const Corpus& corpus, const OrderSettings& settings) {
  const ChunkTable& chunks = corpus.chunks;
  if (!settings.randomize) return corpus.order ? chunks.num_chunks() : 1;
  if (settings.window_chunks != 0) {
    return std::clamp<std::uint64_t>(settings.window_chunks / settings.num_lanes, 1,
                                     chunks.num_chunks());
  }
  if (settings.window_samples != 0) {
    const uint128 wanted = static_cast<uint128>(settings.window_samples) * chunks.num_chunks() /
                           (static_cast<uint128>(settings.num_lanes) * chunks.num_samples());
    return static_cast<std::uint64_t>(std::clamp<uint128>(wanted, 1, chunks.num_chunks()));
  }
  return chunks.num_chunks();
}

std::uint64_t num_blocks(const Corpus& corpus, const OrderSettings& settings) {
  const std::uint64_t chunks = block_chunks(corpus, settings);
  return (corpus.chunks.num_chunks() + chunks - 1) / chunks;
}

Sweep::Sweep(std::shared_ptr<const Corpus> corpus, const OrderSettings& settings,
             std::uint64_t number)
    : corpus_(std::move(corpus)),
      settings_(settings),
      number_(number),
      num_lanes_(settings.randomize ? settings.num_lanes : 1),
      block_chunks_(block_chunks(*corpus_, settings)),
      num_blocks_(sweephand::num_blocks(*corpus_, settings)),
      lanes_(num_lanes_) {
  const std::uint64_t num_chunks = corpus_->chunks.num_chunks();
  last_place_ = num_chunks - 1;
  if (num_blocks_ == 1 || !settings.randomize) return;
  Permutation shuffled(num_chunks, key_of(kChunkOrder));
  if (settings.scores && settings.scores->orders_chunks(number)) {
    shuffled =
        settings.scores->in_order(shuffled, {.sweep = number, .key = key_of(kChunkDraws)});
  }
  chunk_order_ = std::make_shared<const Permutation>(std::move(shuffled));
  if (corpus_->chunks.common_samples() == 0) {
    starts_.emplace(corpus_->chunks, *chunk_order_);
  } else {
    last_place_ = chunk_order_->place(num_chunks - 1);
  }
}

std::uint64_t Sweep::key_of(std::uint64_t purpose) const noexcept {
  return derive_key({kOrderVersion, settings_.seed, purpose, number_});
}

std::uint64_t Sweep::key_of(std::uint64_t purpose, std::uint64_t block) const noexcept {
  return derive_key({kOrderVersion, settings_.seed, purpose, number_, block});
}

Sweep Sweep::sweep(std::uint64_t number) const {
  if (number != number_) return {corpus_, settings_, number};
  Sweep same = *this;
  same.blocks_.clear();
  same.held_.clear();
  same.lanes_ = LaneStarts(num_lanes_);  // inconsistent sizes may be others when read again
  return same;
}

std::uint64_t Sweep::block_begin(std::uint64_t block) const {
  if (block == num_blocks_) return num_samples();
  const std::uint64_t place = block * block_chunks_;
  if (starts_) return starts_->begin(place);
  const ChunkTable& chunks = corpus_->chunks;
  if (place <= last_place_) return chunks.first_sample(place);
  // Of the chunks before it, all but the last of the corpus have the same number of samples.
  return chunks.first_sample(place - 1) + chunks.samples_in(chunks.num_chunks() - 1);
}

std::uint64_t Sweep::cut(std::uint32_t lane) const noexcept {
  return static_cast<std::uint64_t>(static_cast<uint128>(lane) * num_samples() / num_lanes_);
}

std::vector<std::uint64_t> Sweep::chunks_of(std::uint64_t block) const {
  if (num_blocks() == 1) return {};  // all of them
  const std::uint64_t first = block * block_chunks_;
  const std::uint64_t last = std::min(first + block_chunks_, corpus_->chunks.num_chunks());
  std::vector<std::uint64_t> chunks(last - first);
  if (!chunk_order_) {
    std::iota(chunks.begin(), chunks.end(), first);
    return chunks;
  }
  chunk_order_->fill(first, chunks);
  std::sort(chunks.begin(), chunks.end());
  return chunks;
}

std::shared_ptr<const Block> Sweep::block(std::uint64_t block) {
  if (auto known = blocks_[block].lock()) return known;
  held_.push_back(make_block(block));
  return held_.back();
}

std::shared_ptr<const Block> Sweep::block_not_held(std::uint64_t block) {
  if (auto known = blocks_[block].lock()) return known;
  return make_block(block);
}

std::uint64_t Sweep::shuffle_key(std::uint64_t block) const noexcept {
  return key_of(kBlockShuffle, block);
}

bool Sweep::is_dealt(std::uint64_t block) const {
  if (!settings_.randomize || settings_.scores || num_blocks_ < num_lanes_) return false;
  std::uint64_t count = 0;
  for (const std::uint64_t chunk : chunks_of(block))
    count += corpus_->chunks.sequences_in(chunk);
  return num_blocks_ > 1 && count <= kMostDealt;
}

Shuffle Sweep::shuffle_of(std::uint64_t block) const {
  Shuffle shuffle{.key = shuffle_key(block)};
  const ScoreOrder* const scores = settings_.scores.get();
  if (scores == nullptr || !scores->orders(number_)) return shuffle;
  const std::uint64_t num_chunks = corpus_->chunks.num_chunks();
  const std::uint64_t begin = block * block_chunks_;
  const std::uint64_t end = std::min(begin + block_chunks_, num_chunks);
  shuffle.scores = scores;
  shuffle.stretch =
      scores->stretch_of(number_, key_of(kBlockDraws, block), begin, end, num_chunks);
  return shuffle;
}

std::shared_ptr<const Block> Sweep::make_block(std::uint64_t block) {
  std::optional<Shuffle> shuffle;
  if (settings_.randomize) shuffle = shuffle_of(block);
  auto made = std::make_shared<const Block>(corpus_, chunks_of(block), shuffle, number_);
  blocks_[block] = made;
  if (blocks_.size() > 4 * std::size_t{num_lanes_}) {
    std::erase_if(blocks_, [](const auto& entry) { return entry.second.expired(); });
  }
  return made;
}

std::uint64_t Sweep::block_at(std::uint64_t sample) const {
  if (sample >= num_samples()) return num_blocks_;
  if (starts_) return starts_->place_at(sample) / block_chunks_;
  // The last block that begins at or before `sample`: blocks without sequences share a
  // beginning and are passed.
  std::uint64_t found = 0;
  for (std::uint64_t left = num_blocks_; left > 1;) {
    const std::uint64_t half = left / 2;
    if (block_begin(found + half) <= sample) found += half;
    left -= half;
  }
  return found;
}

void Sweep::let_go() noexcept {
  lanes_.let_go();
  held_.clear();
}

ListPlace Sweep::first_at_or_after(std::uint64_t sample) {
  const std::uint64_t index = block_at(sample);
  if (index == num_blocks()) return {.block = index, .place = 0, .start = num_samples()};
  const std::shared_ptr<const Block> held = block(index);
  const BlockPlace found = held->first_at_or_after(sample - block_begin(index));
  if (found.place < held->num_sequences()) {
    return {.block = index, .place = found.place, .start = block_begin(index) + found.start};
  }
  return behind(index);
}

ListPlace Sweep::behind(std::uint64_t block) const {
  std::uint64_t next = block + 1;
  while (next < num_blocks() && block_begin(next + 1) == block_begin(next)) ++next;
  return {.block = next, .place = 0, .start = block_begin(block + 1)};
}

ListPlace Sweep::find(std::uint64_t sequence) {
  std::uint64_t index = 0;
  if (num_blocks() > 1) {
    const std::uint64_t chunk = corpus_->chunks.chunk_of(sequence);
    index = (chunk_order_ ? chunk_order_->place(chunk) : chunk) / block_chunks_;
  }
  const BlockPlace found = block(index)->find(sequence);
  return {.block = index, .place = found.place, .start = block_begin(index) + found.start};
}

std::uint64_t Sweep::offset_at(std::uint64_t samples) {
  // All lanes are read at the same rate, so the place is near samples / lanes.
  return last_offset(samples / num_lanes_, samples,
                     [&](std::uint64_t offset) { return samples_before(offset, 0); });
}

}  // namespace sweephand
