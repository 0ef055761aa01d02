#include "read/mapped_offsets.hpp"

#include <stdexcept>
#include <utility>

namespace sweephand {

std::shared_ptr<MappedOffsets> MappedOffsets::map(const ListedFile& listed, std::uint64_t begin,
                                                  std::uint64_t count) {
  constexpr std::uint64_t kBytes = sizeof(std::int64_t);
  const std::shared_ptr<MappedOffsets> made(new MappedOffsets(listed));
  const std::uint64_t size = made->file_.size();
  if (begin % kBytes != 0 || begin > size || count > (size - begin) / kBytes)
    throw std::invalid_argument("offsets must be aligned, and lie within their file");
  if (!made->file_.map()) return nullptr;
  const std::byte* const place = made->file_.mapped().data() + begin;
  made->offsets_ = {reinterpret_cast<const std::int64_t*>(place), count};
  return made;
}

MappedSizes::MappedSizes(std::shared_ptr<const MappedOffsets> offsets, std::string stream)
    : offsets_(std::move(offsets)),
      sizes_(offsets_->offsets(), {.stream = std::move(stream), .file = offsets_->path()},
             offsets_) {}

void MappedSizes::read(std::uint64_t first, std::span<std::uint32_t> out) const {
  offsets_->read([&] { sizes_.read(first, out); });
}

void MappedSizes::read_runs(std::span<const SequenceRun> runs,
                            std::span<std::uint32_t> out) const {
  offsets_->read([&] { sizes_.read_runs(runs, out); });
}

void MappedSizes::gather(std::span<const std::uint64_t> sequences,
                         std::span<std::uint32_t> out) const {
  offsets_->peek([&] { sizes_.gather(sequences, out); });
}

std::uint64_t MappedSizes::sum(std::uint64_t first, std::uint64_t end) const {
  std::uint64_t sum = 0;
  offsets_->read([&] { sum = sizes_.sum(first, end); });
  return sum;
}

Starts MappedSizes::sums(const Starts& starts) const {
  std::optional<Starts> sums;
  offsets_->read([&] { sums = sizes_.sums(starts); });
  return std::move(*sums);
}

}  // namespace sweephand
