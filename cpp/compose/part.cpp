#include "compose/part.hpp"

#include "base/error.hpp"
#include "base/mix.hpp"

#include <span>

namespace sweephand {

std::uint32_t Part::place_of(std::uint64_t sequence, std::uint16_t sweep_mark) const {
  std::uint32_t place = 0;
  while (place < sequences.size() &&
         (sequences[place].sequence != sequence || sequences[place].sweep != sweep_mark))
    ++place;
  if (place < sequences.size()) return place;
  throw DataError("the order that the data have of their own contradicts itself",
                  {.sequence = sequence});
}

PartReader::PartReader(std::shared_ptr<const Timeline> timeline, std::uint64_t parts_per_sweep,
                       std::uint64_t limit)
    : timeline_(std::move(timeline)),
      parts_(timeline_->num_parts(parts_per_sweep)),
      limit_(limit) {}

std::uint64_t PartReader::cut(std::uint64_t part) const noexcept {
  return static_cast<std::uint64_t>(uint128{part} * timeline_->num_samples() / parts_);
}

// The last part that begins at or before a sample of the sweep.
std::uint64_t PartReader::part_of(std::uint64_t offset) const noexcept {
  return static_cast<std::uint64_t>(((uint128{offset} + 1) * parts_ - 1) /
                                    timeline_->num_samples());
}

void PartReader::go_to(std::uint64_t time) {
  cursor_ = cursor_ ? cursor_->at(time) : timeline_->cursor(time);
}

Part PartReader::at(std::uint64_t time) {
  const std::uint64_t sweep_begin = time - time % timeline_->num_samples();
  std::uint64_t number = part_of(time - sweep_begin);
  go_to(sweep_begin + cut(number));
  // `time` may lie inside a sequence that begins in a part before, or be the end of a mixture.
  while (cursor_->time() > time || cursor_->sweep_done()) {
    if (number == 0) throw StaleError("the sizes of sequences are not those that they were");
    number = part_of(std::min(cut(number), cursor_->time() - sweep_begin) - 1);
    go_to(sweep_begin + cut(number));
  }
  return read(number);
}

Part PartReader::next() {
  if (cursor_->sweep_done()) cursor_->enter_next_sweep();
  return read(part_of(cursor_->time() % timeline_->num_samples()));
}

std::uint64_t PartReader::boundary(std::uint64_t time) {
  const std::uint64_t sweep_begin = time - time % timeline_->num_samples();
  for (std::uint64_t number = part_of(time - sweep_begin); number < parts_; ++number) {
    go_to(sweep_begin + cut(number));
    if (cursor_->sweep_done()) break;
    if (cursor_->time() >= time) return cursor_->time();
  }
  return checked_add(sweep_begin, timeline_->num_samples());
}

Part PartReader::read(std::uint64_t number) {
  Part part{.sweep = cursor_->sweep(), .number = number, .begin = cursor_->time()};
  const std::uint64_t cut_end = std::min(limit_, cursor_->sweep_begin() + cut(number + 1));
  ++taker_;
  while (!cursor_->sweep_done() && cursor_->time() < cut_end) {
    const std::span<const PlannedSequence> ahead = cursor_->ahead();
    std::size_t count = 0;
    std::uint64_t samples = 0;
    while (count < ahead.size() && cursor_->time() + samples < cut_end)
      samples += ahead[count++].size;
    cursor_->add_blocks(ahead.first(count), taker_, part.blocks);
    for (std::size_t i = 0; i < count; ++i) part.block_of.push_back(cursor_->place_of_block(i));
    const std::span<const PlannedSequence> taken = ahead.first(count);
    part.sequences.insert(part.sequences.end(), taken.begin(), taken.end());
    cursor_->pop(count, samples);
  }
  part.end = cursor_->time();
  part.ends_sweep = cursor_->sweep_done();
  return part;
}

}  // namespace sweephand
