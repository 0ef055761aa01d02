// Pieces of files, read as if they were one run of bytes.
#pragma once

#include "base/search.hpp"
#include "read/deserializer.hpp"
#include "read/file.hpp"

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sweephand {

struct ListedFile;

// Pieces of many small files, which are read once and then held.
//
//   run     | file 0 | file 1      | file 2 |     as Extents has it
//   block   | 11111  | not yet     | 222222 |     those that are held, one after the other
//
// If there are many files, small ones are not checked any more once they were read, as asking
// the system whether one has changed takes longer than copying from it. They are stored one
// after the other in one block. Thread-safe.
class HeldExtents {
 public:
  static constexpr std::size_t kFew = 1024;
  static constexpr std::size_t kSmall = std::size_t{64} << 10;
  static constexpr std::size_t kMostHeld = std::size_t{128} << 20;

  // Those of an Extents, which outlives this. Of few files, or large ones, or where there is no
  // room, none are held.
  HeldExtents(std::span<const ListedFile> files, std::span<const std::uint64_t> numbers,
              std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> starts);

  // The place of a piece, also before it is read; null if it is not held.
  const std::byte* place(std::size_t extent) const noexcept {
    return places_.empty() || places_[extent] == kNowhere ? nullptr
                                                          : block_.get() + places_[extent];
  }

  // The same, and reads it if it is held and was not read yet. Throws StaleError when its file
  // has changed since it was listed, as File::read does otherwise.
  const std::byte* read(std::size_t extent) {
    const std::byte* const bytes = place(extent);
    if (bytes != nullptr && !is_there_[extent].load(std::memory_order_acquire)) fill(extent);
    return bytes;
  }

 private:
  static constexpr std::uint64_t kNowhere = ~std::uint64_t{0};

  void fill(std::size_t extent);
  std::size_t page_of(const std::byte* place) const noexcept;
  void join_pages(std::size_t page) const noexcept;

  std::span<const ListedFile> files_;
  std::span<const std::uint64_t> numbers_;
  std::span<const std::uint64_t> offsets_;
  std::span<const std::uint64_t> starts_;
  std::vector<std::uint64_t> places_;   // in the block, of every piece; empty if none is held
  std::unique_ptr<std::byte[]> block_;  // NOLINT(*-avoid-c-arrays): a vector would fill it
  std::vector<std::atomic<bool>> is_there_;
  std::uint64_t size_ = 0;              // of the block
  std::mutex mutex_;                    // of who reads a file; guards all below
  std::vector<std::uint32_t> to_read_;  // pieces that begin in each huge page
};

// Pieces of files, read as if they were one run of bytes.
struct ListedFile {
  std::string path;
  FileTag tag;  // as it was when it was listed
};

// Opens files on demand. Those that the system maps stay open, or a part of them if there are
// too many. Thread-safe.
class FilePool {
 public:
  static constexpr std::size_t kMaxMapped = 16384;  // far below the usual limit of 65530

  explicit FilePool(std::vector<ListedFile> files);

  // The file: one that stays open, or one that `keeper` keeps. Throws StaleError when it has
  // changed.
  const File& open(std::uint64_t number, std::shared_ptr<const File>& keeper) {
    const File* const stays = staying_[number].load(std::memory_order_acquire);
    if (stays != nullptr && !stays->torn()) return *stays;
    keeper = open_anew(number);
    return *keeper;
  }

  // The file if it is open and stays; else null.
  const File* staying(std::uint64_t number) const noexcept {
    return staying_[number].load(std::memory_order_acquire);
  }

  std::span<const ListedFile> files() const noexcept { return files_; }

 private:
  std::shared_ptr<const File> open_anew(std::uint64_t number);

  std::vector<ListedFile> files_;
  std::size_t most_open_;                          // files with descriptors
  std::vector<std::atomic<const File*>> staying_;  // by number; null if it does not stay
  std::mutex mutex_;                               // guards all below
  std::vector<std::shared_ptr<const File>> open_;  // by number; null if it is not open
  std::deque<std::uint64_t> opened_;  // those of them that do not stay, the oldest first
  std::vector<std::shared_ptr<const File>> kept_;  // what somebody may still read
  std::size_t num_descriptors_ = 0;                // of files that stay
  bool can_map_ = true;
};

// Immutable but for the files it opens; several threads may read, each by its own reader.
class Extents {
 public:
  // Extent i is `bytes[i]` bytes of file `numbers[i]` from `offsets[i]` on. Throws
  // std::invalid_argument when there is no such file, or the spans differ in length.
  Extents(std::vector<ListedFile> files, std::span<const std::uint64_t> numbers,
          std::span<const std::uint64_t> offsets, std::span<const std::uint64_t> bytes);

  std::uint64_t num_bytes() const noexcept { return starts_.back(); }

  // The run in memory, if it is one extent of a file that is mapped; else null. Valid for the
  // lifetime of this object; data read there count only when Reader::check_unchanged has
  // passed.
  const std::byte* in_memory() const noexcept { return in_memory_; }

  // The reader of one thread at a time.
  class Reader {
   public:
    explicit Reader(const Extents& extents) : extents_(extents) {}

    // Fills `out` from `offset` of the run on. REQUIRES: it ends within the run
    void read(std::uint64_t offset, std::span<std::byte> out);

    // To be called a few reads before one from `offset` on: prefetches the entry with its
    // place.
    void prefetch_place(std::uint64_t offset) const noexcept;

    // Where that is in memory, to be asked for ahead; null if it is not known to be there.
    const std::byte* place(std::uint64_t offset) const noexcept;

    // To be called before the run is read in memory. REQUIRES: extents.in_memory()
    void read_in_memory();

    // To be called when all is read: throws StaleError when a file changed meanwhile, and
    // TouchedError when all is to be read again.
    void check_unchanged();

   private:
    struct Touched {
      std::uint64_t number = 0;
      std::int64_t since = 0;  // see File::begin_reading
      auto operator<=>(const Touched&) const = default;
    };

    void enter(std::uint64_t offset);
    void touch(std::uint64_t number, const File& file);
    void leave();

    const Extents& extents_;
    std::uint64_t begin_ = 0;  // the part of the run that the current extent holds
    std::uint64_t end_ = 0;
    std::uint64_t number_ = ~std::uint64_t{0};  // its file; none at first
    std::uint64_t offset_ = 0;                  // where it begins there
    const std::byte* held_ = nullptr;           // its bytes, or
    const File* file_ = nullptr;
    std::shared_ptr<const File> keeper_;
    std::vector<Touched> touched_;  // files, some of them twice
    std::string torn_;              // the path of one that zeros may have come from; or empty
    bool in_memory_ = false;        // whether the run is read there
  };

 private:
  std::vector<std::uint64_t> numbers_;  // per extent
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t> starts_;  // where each extent begins in the run, and the end
  EvenGuess extent_guess_;
  std::shared_ptr<FilePool> files_;
  std::unique_ptr<HeldExtents> held_;
  std::shared_ptr<const File> whole_;  // keeps what is in memory
  const std::byte* in_memory_ = nullptr;
};

// Fills `out` with runs of bytes, one after the other: run i is `sizes[i]` bytes from
// `offsets[i]` on; those that touch are read at once. Throws std::out_of_range when a run or
// `out` ends too early, StaleError when a file changed.
void gather(const Extents& extents, std::span<const std::uint64_t> offsets,
            std::span<const std::uint64_t> sizes, std::span<std::byte> out);

// Bare values in files, read chunk by chunk: for a window, where reading sequence by sequence
// would cost a system call for each.
class ExtentChunks final : public Deserializer {
 public:
  // Chunk i is sequences [starts[i], starts[i + 1]) of `corpus`, whose columns are in extents
  // or are held. Throws std::invalid_argument when the starts do not ascend to its end.
  ExtentChunks(std::shared_ptr<const Chunk> corpus, std::vector<std::uint64_t> starts);

  std::shared_ptr<const Chunk> load(std::uint64_t chunk) override;

 private:
  std::shared_ptr<const Chunk> corpus_;
  std::vector<std::uint64_t> starts_;
};

}  // namespace sweephand
