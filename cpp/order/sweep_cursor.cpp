#include "order/sweep_cursor.hpp"

#include "base/error.hpp"
#include "base/mix.hpp"

#include <algorithm>
#include <bit>
#include <limits>
#include <numeric>
#include <utility>

namespace sweephand {
namespace {

constexpr unsigned kPlaceBits = 32;

// Sequences in the buffers of all lanes: these stay in the processor's cache.
constexpr std::size_t kBuffered = 1 << 16;
constexpr std::size_t kShallow = 32;  // of one lane
constexpr std::size_t kDeep = 64;
constexpr std::uint32_t kAtFirst = 8;
constexpr std::size_t kSoon = 4;  // lanes, whose lists are fetched
constexpr std::uint64_t kAskedAtOnce = std::uint64_t{1} << 17;  // whose sizes
// Of two offsets that are merged at a time.
constexpr std::uint64_t kFarthest = std::uint64_t{1} << 31;

constexpr std::uint16_t kIsLast = 1;  // in place of a sweep, until a sequence is ahead
constexpr std::uint64_t kNone = std::numeric_limits<std::uint64_t>::max();

[[noreturn]] void refuse_other_sizes() {
  throw StaleError("the sizes of sequences are not those that they were");
}

}  // namespace

void Merge::reserve(std::size_t count) {
  if (count <= keys_.size()) return;
  keys_.resize(std::bit_ceil(count));
}

std::size_t Merge::add(std::span<const PlannedSequence> sequences, std::size_t place,
                       std::uint64_t& offset, std::uint64_t begin, std::uint64_t end) {
  reserve(count_ + sequences.size());
  std::uint64_t* const keys = keys_.data() + count_;
  std::uint64_t at = offset;
  std::size_t taken = 0;
  for (; taken < sequences.size() && at < end; ++taken) {
    keys[taken] = (at - begin) << kPlaceBits | (place + taken);
    at += sequences[taken].size;
  }
  offset = at;
  count_ += taken;
  return taken;
}

void Merge::sort(std::span<const PlannedSequence> from, std::vector<PlannedSequence>& sorted) {
  sorted.resize(count_);
  if (count_ == 0) return;
  std::span<const std::uint64_t> keys(keys_.data(), count_);
  if (!std::ranges::is_sorted(keys)) {  // as those of one lane are
    deal();
    keys = std::span(sorted_).first(count_);
  }
  for (std::size_t i = 0; i < count_; ++i)
    sorted[i] = from[static_cast<std::uint32_t>(keys[i])];
  count_ = 0;
}

// Sorts by the highest bits of offsets, enough to separate evenly spread keys, and then the
// keys that are still equal by the remaining bits.
void Merge::deal() {
  const std::span keys(keys_.data(), count_);
  const std::uint64_t most = std::ranges::max(keys);
  const auto wide = static_cast<unsigned>(std::bit_width(most >> kPlaceBits));
  const auto enough = static_cast<unsigned>(std::bit_width(std::uint64_t{count_}));
  const unsigned shift = kPlaceBits + wide - std::min(wide, enough);
  sorted_.resize(std::max(sorted_.size(), count_));
  ends_.assign((most >> shift) + 2, 0);
  std::uint32_t* const ends = ends_.data();
  for (const std::uint64_t key : keys) ++ends[(key >> shift) + 1];
  std::partial_sum(ends_.begin(), ends_.end(), ends_.begin());
  for (const std::uint64_t key : keys) sorted_[ends[key >> shift]++] = key;
  if (shift == kPlaceBits) return;
  std::size_t begin = 0;
  for (const std::uint32_t end : ends_) {
    if (end > begin + 1) std::ranges::sort(std::span(sorted_).subspan(begin, end - begin));
    begin = end;
  }
}

SweepCursor::SweepCursor(Sweep sweep, std::uint64_t time)
    : sweep_(std::move(sweep)),
      lanes_(sweep_.num_lanes()),
      open_(lanes_.size()),
      depth_(
          static_cast<std::uint32_t>(std::clamp(kBuffered / lanes_.size(), kShallow, kDeep))),
      buffers_(lanes_.size() * depth_) {
  const std::uint64_t offset = sweep_.offset_at(time % sweep_.num_samples());
  open_sweep(offset);
  while (time_ < time && !sweep_done()) pop(1, ahead().front().size);
}

std::unique_ptr<Cursor> SweepCursor::at(std::uint64_t time) const {
  return std::make_unique<SweepCursor>(sweep_.sweep(time / sweep_.num_samples()), time);
}

// Fills the lanes from `offset` on.
void SweepCursor::open_sweep(std::uint64_t offset) {
  time_ = sweep_begin_ = checked_mul(sweep_.number(), sweep_.num_samples());
  checked_add(time_, sweep_.num_samples());
  time_ += sweep_.samples_before(offset, 0);
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) place_lane(l, offset);
  filled_ = kAtFirst;
  merge();
}

void SweepCursor::place_lane(std::uint32_t number, std::uint64_t offset) {
  Lane& lane = lanes_[number];
  lane = {};
  open_[number] = {};
  const std::uint64_t begin = sweep_.cut(number);
  const std::uint64_t length = sweep_.cut(number + 1) - begin;
  if (offset >= length) return;
  const auto [place, known] = sweep_.place_in(number, offset);
  if (place.start - begin >= length) return;
  open_[number].block = sweep_.block(place.block);
  lane.block = open_[number].block.get();
  lane.num_places = lane.block->num_sequences();
  lane.block_index = place.block;
  lane.place = place.place;
  lane.length = length;
  lane.next = lane.read = place.start - begin;
  const std::span part(buffer_of(number), std::min<std::size_t>(known.size(), depth_));
  std::copy_n(known.begin(), part.size(), part.begin());
  for (PlannedSequence& sequence : part) sequence.lane = static_cast<std::uint16_t>(number);
  take_up(number, part);
}

// Fills the buffer of a lane again, with at most one border in it. If that fails, the present
// sequences come first: the next call tries again.
void SweepCursor::top_up(std::uint32_t number) {
  Lane& lane = lanes_[number];
  PlannedSequence* const buffer = buffer_of(number);
  std::copy(buffer + lane.head, buffer + lane.count, buffer);
  lane.count -= lane.head;
  lane.head = 0;
  while (!lane.all_read() && lane.count < filled_) {
    const bool is_done = lane.place == lane.num_places;
    if (is_done && open_[number].later) return;
    try {
      if (is_done) enter_block(number);
      read_some(number);
    } catch (const Interruption&) {
      throw;
    } catch (...) {
      if (lane.count == 0) throw;
      return;
    }
  }
}

// Goes on to the next block that has a sequence. REQUIRES: the lane does not end before
void SweepCursor::enter_block(std::uint32_t number) {
  Lane& lane = lanes_[number];
  std::uint64_t index = lane.block_index;
  std::shared_ptr<const Block> block;
  do {
    if (++index == sweep_.num_blocks()) refuse_other_sizes();
    block = sweep_.block(index);
  } while (block->num_sequences() == 0);
  block->make_list();
  lane.block = block.get();
  lane.num_places = block->num_sequences();
  lane.block_index = index;
  lane.place = 0;
  Open& open = open_[number];
  (open.block ? open.later : open.block) = std::move(block);
}

// Takes sequences of the block, up to the end of the lane; the last of either is marked.
void SweepCursor::read_some(std::uint32_t number) {
  Lane& lane = lanes_[number];
  const std::uint64_t count =
      std::min<std::uint64_t>(filled_ - lane.count, lane.num_places - lane.place);
  const std::span part(buffer_of(number) + lane.count, count);
  lane.block->fill(lane.place, static_cast<std::uint16_t>(number), part);
  take_up(number, part);
}

// Moves past sequences that follow those of the buffer, and are now in it.
void SweepCursor::take_up(std::uint32_t number, std::span<PlannedSequence> part) {
  Lane& lane = lanes_[number];
  for (std::size_t i = 0; i < part.size() && !lane.all_read(); ++i, ++lane.count) {
    lane.read += part[i].size;
    if (++lane.place == lane.num_places || lane.all_read()) part[i].sweep = kIsLast;
  }
}

// If sizes come from outside, many are asked for at once. If that fails, they are asked for
// again when they are needed.
void SweepCursor::make_lists(std::span<const Block* const> blocks) {
  while (!blocks.empty()) {
    std::size_t asked = 0;
    for (std::uint64_t count = 0; asked < blocks.size() && count < kAskedAtOnce; ++asked)
      count += blocks[asked]->num_sequences();
    try {
      Block::make_lists(blocks.first(asked));
    } catch (const Interruption&) {
      throw;
    } catch (...) {  // NOLINT(bugprone-empty-catch)
    }
    blocks = blocks.subspan(asked);
  }
}

// The sequences that top_up will need.
void SweepCursor::make_next_lists() {
  std::vector<const Block*> blocks;
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (lane.all_read() || 2 * lane.num_buffered() >= filled_) continue;
    const Block* block = lane.block;
    if (lane.place == lane.num_places) {
      if (open_[l].later) continue;
      const std::uint64_t index = sweep_.behind(lane.block_index).block;
      if (index == sweep_.num_blocks()) continue;
      block = sweep_.block(index).get();
    }
    blocks.push_back(block);
  }
  make_lists(blocks);
}

void SweepCursor::fetch(const Lane& lane) const noexcept {
  if (lane.all_read() || lane.place == lane.num_places) return;
  if (2 * lane.num_buffered() < filled_) lane.block->fetch(lane.place);
}

// Merges the sequences of lanes up to an offset in key order: none if all lanes have ended.
void SweepCursor::merge() {
  merged_.clear();
  front_ = 0;
  std::uint64_t begin = kNone;
  std::uint64_t end = kNone;
  if (!sweep_.corpus().sizes->in_memory()) make_next_lists();
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
    const Lane& lane = lanes_[l];
    if (l + kSoon < lanes_.size()) fetch(lanes_[l + kSoon]);
    if (!lane.all_read() && 2 * lane.num_buffered() < filled_) top_up(l);
    if (lane.num_buffered() == 0) continue;
    begin = std::min(begin, lane.next);
    if (!lane.all_read()) end = std::min(end, lane.read);
  }
  sweep_.let_go();
  filled_ = std::min(2 * filled_, depth_);
  if (begin != kNone) end = std::min(end, begin + kFarthest);
  for (std::uint32_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    const std::size_t place = std::size_t{l} * depth_ + lane.head;
    const std::span buffered(buffers_.data() + place, lane.num_buffered());
    lane.head += static_cast<std::uint32_t>(merge_.add(buffered, place, lane.next, begin, end));
  }
  merge_.sort(buffers_, merged_);
  find_borders();
}

void SweepCursor::find_borders() {
  borders_.assign(1, merged_.size());
  for (std::size_t i = merged_.size(); i-- > 0;) {
    if (merged_[i].sweep != kIsLast) continue;
    merged_[i].sweep = 0;
    borders_.push_back(i + 1);
  }
  border_ = borders_.back();
}

// Releases the block whose end a lane has reached: its chunks may be closed.
void SweepCursor::pass_border() {
  if (borders_.size() > 1) {
    Open& open = open_[merged_[border_ - 1].lane];
    open.block = std::exchange(open.later, nullptr);
    open.taker = 0;
    borders_.pop_back();
    border_ = borders_.back();
  }
  if (front_ == merged_.size()) merge();
}

void SweepCursor::enter_next_sweep() {
  sweep_ = sweep_.sweep(sweep_.number() + 1);
  open_sweep(0);
}

void SweepCursor::open_blocks(std::vector<std::shared_ptr<const Block>>& blocks) const {
  for (const Open& open : open_) {
    // Lanes side by side are often in one block.
    if (open.block && (blocks.empty() || blocks.back() != open.block)) {
      blocks.push_back(open.block);
    }
  }
}

}  // namespace sweephand
