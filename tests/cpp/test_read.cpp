// Vectors for columns, and files that are mapped.
#include "base/mix.hpp"
#include "check.hpp"
#include "read/column_vector.hpp"
#include "read/mapping.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sweephand {
namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;

void vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others() {
  const auto work = [](std::uint64_t seed) {
    ColumnVector<std::int64_t> kept;
    for (std::uint64_t round = 0; round < 50; ++round) {
      ColumnVector<std::int64_t> dropped(mix64(seed + round) % (kMiB / 4));
      std::ranges::fill(dropped, -1);
      kept.push_back(static_cast<std::int64_t>(round));
      kept.resize(kept.size() + 5000, 7);
    }
    CHECK(std::ranges::count(kept, 7) >= 250'000);
    CHECK(std::ranges::count(kept, -1) == 0);
  };
  std::array<std::thread, 4> threads;
  for (std::size_t i = 0; i < threads.size(); ++i) threads[i] = std::thread(work, 1000 * i);
  for (std::thread& thread : threads) thread.join();
}

// A file of ones that has no name any more.
class Ones {
 public:
  explicit Ones(std::size_t size) {
    std::string name = "/tmp/ones-XXXXXX";
    descriptor_ = ::mkstemp(name.data());
    ::unlink(name.c_str());
    const std::vector<std::byte> ones(size, std::byte{1});
    CHECK(::write(descriptor_, ones.data(), size) == static_cast<ssize_t>(size));
  }
  Ones(const Ones&) = delete;
  Ones& operator=(const Ones&) = delete;
  ~Ones() { ::close(descriptor_); }

  int descriptor() const { return descriptor_; }
  void cut(std::size_t size) const {
    CHECK(::ftruncate(descriptor_, static_cast<off_t>(size)) == 0);
  }

 private:
  int descriptor_;
};

void a_mapping_whose_file_is_cut_is_torn_and_no_other_is() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Ones whole(3 * page);
  const Ones cut(3 * page);
  std::vector<std::unique_ptr<Mapping>> others(100);  // more than fit into one slab
  for (auto& other : others) other = std::make_unique<Mapping>(whole.descriptor(), 3 * page);
  const Mapping mapping(cut.descriptor(), 3 * page - 1);
  cut.cut(page);
  CHECK(mapping.bytes()[page - 1] == std::byte{1});
  CHECK(!mapping.torn());
  CHECK(mapping.bytes()[2 * page] == std::byte{0});
  CHECK(mapping.torn());
  CHECK(mapping.bytes()[page - 1] == std::byte{1});
  CHECK(mapping.bytes()[3 * page - 2] == std::byte{0});
  CHECK(std::ranges::all_of(others, [&](const auto& other) {
    return other->bytes()[2 * page] == std::byte{1} && !other->torn();
  }));
}

void threads_map_and_tear_at_one_time() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const auto work = [page] {
    for (int round = 0; round < 200; ++round) {
      const Ones file(2 * page);
      const Mapping mapping(file.descriptor(), 2 * page);
      CHECK(mapping.bytes()[page] == std::byte{1});
      file.cut(page);
      CHECK(mapping.bytes()[page + 1] == std::byte{0});
      CHECK(mapping.torn());
    }
  };
  std::array<std::thread, 4> threads;
  for (std::thread& thread : threads) thread = std::thread(work);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::a_mapping_whose_file_is_cut_is_torn_and_no_other_is();
  sweephand::threads_map_and_tear_at_one_time();
  sweephand::vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others();
}
