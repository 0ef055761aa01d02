// Offsets of sequences in a mapped file: few of many are needed, and copying all would take
// longer than their use.
#pragma once

#include "index/sizes.hpp"
#include "read/column.hpp"
#include "read/extents.hpp"
#include "read/file.hpp"

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sweephand {

// Any number of threads may read at once. The file may be cut or written at any time: then a
// read may return any value, and differ from earlier reads, until a check of the file refuses
// it. Callers that find a place by an offset must therefore read it once and check that value.
class MappedOffsets {
 public:
  // `count` offsets from byte `begin` of a file on; null if the system cannot map it. Throws
  // StaleError when the file is not the listed one, std::invalid_argument when they are not
  // within it or not aligned.
  static std::shared_ptr<MappedOffsets> map(const ListedFile& listed, std::uint64_t begin,
                                            std::uint64_t count);

  std::span<const std::int64_t> offsets() const noexcept { return offsets_; }
  const std::string& path() const noexcept { return file_.path(); }

  // Calls `read`, which reads offsets, and again where the file was touched meanwhile. Throws
  // StaleError when the file changed, whatever else `read` found wrong.
  template <class Read>
  void read(const Read& read) const {
    read_untouched([&] {
      const std::int64_t since = file_.begin_reading();
      look_unless([&] { return read(), false; }, since);
    });
  }

  // The same without a check of the file unless a value seems wrong: for planning, which reads
  // a few at a time, of data that are read with a check before they are delivered.
  template <class Read>
  void peek(const Read& read) const {
    read_untouched([&] {
      const std::int64_t since = file_.begin_reading();
      look_unless([&] { return read(), !file_.torn(); }, since);
    });
  }

 private:
  // Looks at the file unless `read` returns that it need not.
  template <class Read>
  void look_unless(const Read& read, std::int64_t since) const {
    try {
      if (read()) return;
    } catch (...) {
      file_.check_unchanged(since);
      throw;
    }
    file_.check_unchanged(since);
  }

  explicit MappedOffsets(const ListedFile& listed) : file_(listed.path, listed.tag) {}

  File file_;
  std::span<const std::int64_t> offsets_;
};

// Calls `read`, which reads the sample offsets of a column in any storage.
template <class Read>
void read_offsets(const Column& column, const Read& read) {
  if (column.mapped_offsets == nullptr) return read();
  column.mapped_offsets->read(read);
}

// The sizes between them; see OffsetSizes.
class MappedSizes final : public Sizes {
 public:
  // `stream` is the one that they are of.
  MappedSizes(std::shared_ptr<const MappedOffsets> offsets, std::string stream);
  std::optional<std::uint64_t> count() const noexcept override { return sizes_.count(); }
  void read(std::uint64_t first, std::span<std::uint32_t> out) const override;
  void read_runs(std::span<const SequenceRun> runs,
                 std::span<std::uint32_t> out) const override;
  void gather(std::span<const std::uint64_t> sequences,
              std::span<std::uint32_t> out) const override;
  std::uint64_t sum(std::uint64_t first, std::uint64_t end) const override;
  Starts sums(const Starts& starts) const override;

 private:
  std::shared_ptr<const MappedOffsets> offsets_;
  OffsetSizes sizes_;
};

}  // namespace sweephand
