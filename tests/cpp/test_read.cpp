// Vectors for columns, and files that are mapped.
#include "base/mix.hpp"
#include "check.hpp"
#include "read/column.hpp"
#include "read/extents.hpp"
#include "read/file.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <sys/stat.h>
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

// A file of ones that is rewritten with its time of modification put back, as `cp -p` does.
class Rewritten {
 public:
  explicit Rewritten(std::size_t size) : size_(size) {
    descriptor_ = ::mkstemp(path_.data());
    CHECK(descriptor_ >= 0);
    fill();
    CHECK(::fstat(descriptor_, &first_) == 0);
  }
  Rewritten(const Rewritten&) = delete;
  Rewritten& operator=(const Rewritten&) = delete;
  ~Rewritten() {
    ::unlink(path_.c_str());
    ::close(descriptor_);
  }

  void cut() const { CHECK(::ftruncate(descriptor_, 0) == 0); }
  void zero() const {
    cut();
    CHECK(::ftruncate(descriptor_, static_cast<off_t>(size_)) == 0);
  }
  void put_back() const {
    fill();
    const std::array<struct timespec, 2> times = {first_.st_atim, first_.st_mtim};
    CHECK(::futimens(descriptor_, times.data()) == 0);
  }
  ListedFile listed() const { return {.path = path_, .tag = File(path_).tag()}; }

 private:
  void fill() const {
    const std::vector<std::byte> ones(size_, std::byte{1});
    CHECK(::pwrite(descriptor_, ones.data(), size_, 0) == static_cast<ssize_t>(size_));
  }

  std::string path_ = "/tmp/rewritten-XXXXXX";
  std::size_t size_;
  int descriptor_ = -1;
  struct stat first_{};
};

template <class Read>
bool is_touched(const Read& read) {
  try {
    read();
    return false;
  } catch (const TouchedError&) {
    return true;
  }
}

void what_is_read_while_a_file_is_written_and_put_back_does_not_count() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Rewritten one(page);
  const Rewritten other(page);
  const std::vector<ListedFile> listed = {one.listed(), other.listed()};
  const std::vector<std::uint64_t> numbers = {0, 1};
  const std::vector<std::uint64_t> offsets = {0, 0};
  const std::vector<std::uint64_t> sizes = {page, page};
  const Extents extents(listed, numbers, offsets, sizes);
  std::vector<std::byte> out(page);
  const auto read_of_both = [&](const auto& meanwhile) {
    Extents::Reader reader(extents);
    reader.read(0, out);
    reader.read(page, out);
    meanwhile();
    reader.read(0, out);
    other.put_back();
    one.put_back();
    reader.check_unchanged();
  };
  for (int i = 0; i < 3; ++i) {
    CHECK(is_touched([&] { read_of_both([&] { one.zero(); }); }));   // zeros were read
    CHECK(is_touched([&] { read_of_both([&] { other.cut(); }); }));  // all was read before
    CHECK(is_touched([&] { read_of_both([&] { other.put_back(); }); }));
    std::vector<std::byte> both(2 * page);
    const std::vector<std::uint64_t> all = {2 * page};
    gather(extents, std::span(offsets).first(1), all, both);
    CHECK(std::ranges::count(both, std::byte{1}) == static_cast<std::ptrdiff_t>(2 * page));
  }
}

void what_was_read_of_a_file_that_is_cut_does_not_count_when_it_is_opened_anew() {
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const Rewritten file(2 * page);
  const std::vector<std::uint64_t> number = {0};
  const std::vector<std::uint64_t> size = {2 * page};
  const Extents extents({file.listed()}, number, number, size);
  std::vector<std::byte> out(2 * page);
  const auto is_refused = [&](const auto& read) {
    try {
      read();
      return false;
    } catch (const StaleError&) {
      return true;
    }
  };
  CHECK(is_refused([&] {  // in memory
    Extents::Reader reader(extents);
    reader.read_in_memory();
    file.cut();
    CHECK(extents.in_memory()[page] == std::byte{0});
    file.put_back();
    reader.check_unchanged();
  }));
  CHECK(is_refused([&] {  // the zeros stay there
    Extents::Reader reader(extents);
    reader.read_in_memory();
    reader.check_unchanged();
  }));
  gather(extents, number, size, out);  // which opens it anew
  CHECK(std::ranges::count(out, std::byte{1}) == static_cast<std::ptrdiff_t>(2 * page));
}

void a_time_of_change_counts_when_the_clock_is_beyond_it() {
  constexpr std::int64_t kSecond = 1'000'000'000;
  const auto settles = [](std::int64_t before_now) {
    ChangeTime time;
    time.before_look();
    struct timespec now{};
    ::clock_gettime(CLOCK_REALTIME, &now);
    return time.settles(now.tv_sec * kSecond + now.tv_nsec - before_now);
  };
  CHECK(!settles(0));
  CHECK(!settles(-kSecond));
  CHECK(settles(3 * kSecond));
  // A file system that keeps seconds alone.
  const auto settles_rounded = [](std::int64_t seconds_ago) {
    ChangeTime time;
    time.before_look();
    return time.settles((::time(nullptr) - seconds_ago) * kSecond);
  };
  CHECK(!settles_rounded(0));
  CHECK(!settles_rounded(1));
  CHECK(settles_rounded(4));
}

}  // namespace
}  // namespace sweephand

int main() {
  sweephand::what_is_read_while_a_file_is_written_and_put_back_does_not_count();
  sweephand::what_was_read_of_a_file_that_is_cut_does_not_count_when_it_is_opened_anew();
  sweephand::a_time_of_change_counts_when_the_clock_is_beyond_it();
  sweephand::a_mapping_whose_file_is_cut_is_torn_and_no_other_is();
  sweephand::threads_map_and_tear_at_one_time();
  sweephand::vectors_of_any_size_keep_their_elements_while_threads_make_and_drop_others();
}
