// TFRecord frames: no file makes the reader do anything but report or throw; what the index
// finds, a chunk reads.
#include "../cpp/check.hpp"
#include "base/error.hpp"
#include "driver.hpp"
#include "read/ledger.hpp"
#include "read/record_frames.hpp"
#include "read/tfrecord.hpp"

#include <algorithm>
#include <string>
#include <sys/mman.h>
#include <unistd.h>

namespace sweephand {
namespace {

// A file in memory.
class MemoryFile {
 public:
  explicit MemoryFile(Input bytes) : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    CHECK(descriptor_ >= 0);
    CHECK(::write(descriptor_, bytes.data(), bytes.size()) ==
          static_cast<ssize_t>(bytes.size()));
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  ~MemoryFile() { ::close(descriptor_); }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

void run(Input input) {
  const MemoryFile memory(input);
  const File file(memory.path());
  Ledger ledger(1);
  const auto offsets = index_records(file, ledger);
  CHECK(std::ranges::is_sorted(offsets));
  CHECK((offsets.back() == input.size()) == ledger.items().empty());
  const std::uint64_t num_records = offsets.size() - 1;
  const RecordDeserializer deserializer(
      {{.key = "tokens", .is_sequence = true, .is_required = false}},
      {{.path = memory.path(), .tag = file.tag()}},
      {{.bytes = offsets.back(), .num_records = num_records}}, input.size() % 2 == 0);
  Ledger damaged(num_records);
  const auto chunk = deserializer.load(0, damaged);
  CHECK(chunk->num_sequences + damaged.offsets().size() == num_records);
}

}  // namespace
}  // namespace sweephand

int main(int argc, char** argv) { return sweephand::fuzz(argc, argv, sweephand::run); }
