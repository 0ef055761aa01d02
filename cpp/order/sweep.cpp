#include "order/sweep.hpp"

#include "base/mix.hpp"
#include "base/search.hpp"

#include <array>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

constexpr std::uint64_t kChunkOrder = 1;  // the purposes of a key: docs/order.md, section 12
constexpr std::uint64_t kBlockShuffle = 2;

// The sequences at a sample of the block, and some before them; the block begins at `begin`.
ListRun run_in(const Block& block, std::uint64_t number, std::uint64_t begin,
               std::uint64_t sample) {
  const BlockPlace found = block.first_at_or_after(sample);
  ListRun run;
  run.num_places = block.num_sequences();
  const std::uint64_t place =
      found.place - std::min<std::uint64_t>(found.place, ListRun::kBefore);
  run.count = static_cast<std::uint32_t>(
      std::min<std::uint64_t>(ListRun::kMost, run.num_places - place));
  const std::span known = std::span(run.sequences).first(run.count);
  block.fill(place, 0, known);
  run.first = {.block = number, .place = place, .start = begin + found.start};
  for (std::uint64_t i = place; i < found.place; ++i) run.first.start -= known[i - place].size;
  run.end = run.first.start;
  for (const PlannedSequence& sequence : known) run.end += sequence.size;
  return run;
}

}  // namespace

ChunkStarts::ChunkStarts(const ChunkTable& chunks, const Permutation& order)
    : chunks_(&chunks),
      order_(&order),
      begins_((chunks.num_chunks() + kPlaces - 1) / kPlaces + 1) {
  add_samples();
  std::exclusive_scan(begins_.begin(), begins_.end(), begins_.begin(), std::uint64_t{0});
}

// Adds up each group. Adjacent chunks are visited in order if their places are known: the table
// may be larger than the processor's cache.
void ChunkStarts::add_samples() {
  const std::uint64_t num_chunks = chunks_->num_chunks();
  std::array<std::uint64_t, 256> buffer{};
  for (std::uint64_t first = 0; first < num_chunks; first += buffer.size()) {
    const std::span part =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), num_chunks - first));
    if (order_->is_table()) {
      order_->fill(first, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        begins_[(first + i) / kPlaces] += chunks_->samples_in(part[i]);
      }
    } else {
      order_->places(first, part);
      for (std::size_t i = 0; i < part.size(); ++i) {
        begins_[part[i] / kPlaces] += chunks_->samples_in(first + i);
      }
    }
  }
}

std::uint64_t ChunkStarts::begin(std::uint64_t place) const {
  std::array<std::uint64_t, kPlaces> buffer{};
  const std::span before = std::span(buffer).first(place % kPlaces);
  order_->fill(place - before.size(), before);
  std::uint64_t begin = begins_[place / kPlaces];
  for (const std::uint64_t chunk : before) begin += chunks_->samples_in(chunk);
  return begin;
}

std::uint64_t ChunkStarts::place_at(std::uint64_t sample) const {
  const std::uint64_t num_chunks = chunks_->num_chunks();
  if (sample >= begins_.back()) return num_chunks;
  const std::uint64_t number = last_at_or_before(begins_, sample);
  std::array<std::uint64_t, kPlaces> buffer{};
  std::uint64_t found = number * kPlaces;
  const std::span chunks = std::span(buffer).first(std::min(kPlaces, num_chunks - found));
  order_->fill(found, chunks);
  std::uint64_t end = begins_[number];
  for (const std::uint64_t chunk : chunks) {
    end += chunks_->samples_in(chunk);
    if (end > sample) break;
    ++found;
  }
  return found;
}

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
  chunk_order_ = std::make_shared<const Permutation>(
      num_chunks, derive_key({kOrderVersion, settings_.seed, kChunkOrder, number_}));
  if (corpus_->chunks.common_samples() == 0) {
    starts_.emplace(corpus_->chunks, *chunk_order_);
  } else {
    last_place_ = chunk_order_->place(num_chunks - 1);
  }
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

std::shared_ptr<const Block> Sweep::make_block(std::uint64_t block) {
  std::optional<std::uint64_t> key;
  if (settings_.randomize)
    key = derive_key({kOrderVersion, settings_.seed, kBlockShuffle, number_, block});
  auto made = std::make_shared<const Block>(corpus_, chunks_of(block), key, number_);
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

// The blocks of samples; where sizes come from outside, they are asked for at once.
std::vector<std::shared_ptr<const Block>> LaneStarts::blocks_at(
    Sweep& sweep, std::span<const Wanted> wanted) {
  std::vector<std::shared_ptr<const Block>> blocks;
  std::vector<const Block*> lacking;
  for (const Wanted& one : wanted) {
    blocks.push_back(sweep.block(sweep.block_at(one.sample)));
    if (lacking.empty() || lacking.back() != blocks.back().get())
      lacking.push_back(blocks.back().get());  // lanes side by side are often in one block
  }
  if (!sweep.corpus().sizes->in_memory()) Block::make_lists(lacking);
  return blocks;
}

// Finds the first sequences of lanes, each at its cut.
void LaneStarts::find_firsts(Sweep& sweep, std::span<const Wanted> wanted) {
  const std::uint32_t size = sweep.corpus().sizes->common();
  std::vector<Wanted> inside;
  for (const Wanted& one : wanted) {
    const std::uint64_t begin = sweep.block_begin(sweep.block_at(one.sample));
    const std::uint64_t sample = one.sample - begin;
    if (sample == 0 || size != 0) {
      firsts_[one.lane] = begin + (size == 0 ? 0 : (sample + size - 1) / size * size);
    } else {
      inside.push_back(one);
    }
  }
  const auto blocks = blocks_at(sweep, inside);
  for (std::size_t i = 0; i < inside.size(); ++i) {
    const std::uint64_t begin = sweep.block_begin(sweep.block_at(inside[i].sample));
    firsts_[inside[i].lane] =
        begin + blocks[i]->first_at_or_after(inside[i].sample - begin).start;
  }
}

void LaneStarts::find_runs(Sweep& sweep, std::span<const Wanted> wanted) {
  const auto blocks = blocks_at(sweep, wanted);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const std::uint64_t index = sweep.block_at(wanted[i].sample);
    const std::uint64_t begin = sweep.block_begin(index);
    runs_[wanted[i].lane] = run_in(*blocks[i], index, begin, wanted[i].sample - begin);
  }
}

std::uint64_t LaneStarts::first(Sweep& sweep, std::uint32_t lane) {
  if (lane == firsts_.size()) return sweep.num_samples();
  if (!firsts_[lane]) {
    const Wanted wanted{.lane = lane, .sample = sweep.cut(lane)};
    find_firsts(sweep, std::span(&wanted, 1));
  }
  return *firsts_[lane];
}

// Finds all positions that samples_before needs.
void LaneStarts::find_all(Sweep& sweep, std::uint64_t offset, std::uint32_t lane) {
  const auto num_lanes = static_cast<std::uint32_t>(firsts_.size());
  runs_.resize(num_lanes);
  std::vector<Wanted> wanted;
  for (std::uint32_t l = 0; l < num_lanes; ++l) {
    const std::uint64_t bound = sweep.cut(l) + offset + (l < lane ? 1 : 0);
    if (bound < sweep.cut(l + 1) && !runs_[l].covers(bound)) wanted.push_back({l, bound});
  }
  find_runs(sweep, wanted);
  wanted.clear();
  for (std::uint32_t l = 0; l < num_lanes; ++l) {
    if (firsts_[l]) continue;
    const std::uint64_t cut = sweep.cut(l);
    if (runs_[l].covers(cut)) {
      firsts_[l] = runs_[l].find(cut).start;
    } else {
      wanted.push_back({l, cut});
    }
  }
  find_firsts(sweep, wanted);
}

std::uint64_t LaneStarts::samples_before(Sweep& sweep, std::uint64_t offset,
                                         std::uint32_t lane) {
  find_all(sweep, offset, lane);
  std::uint64_t samples = 0;
  for (std::uint32_t l = 0; l < firsts_.size(); ++l) {
    const std::uint64_t bound = sweep.cut(l) + offset + (l < lane ? 1 : 0);
    const std::uint64_t reached =
        bound < sweep.cut(l + 1) ? runs_[l].find(bound).start : first(sweep, l + 1);
    samples += reached - first(sweep, l);
  }
  return samples;
}

LanePlace LaneStarts::place(Sweep& sweep, std::uint32_t lane, std::uint64_t sample) {
  const ListRun& run = runs_[lane];
  const BlockPlace found = run.find(sample);
  const std::uint64_t place = run.first.place + found.place;
  if (place == run.num_places) return {.at = sweep.behind(run.first.block), .known = {}};
  return {.at = {.block = run.first.block, .place = place, .start = found.start},
          .known = std::span(run.sequences).first(run.count).subspan(found.place)};
}

}  // namespace sweephand
