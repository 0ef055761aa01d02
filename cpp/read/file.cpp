#include "read/file.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <filesystem>
#include <mutex>
#include <sys/mman.h>
#include <sys/stat.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace sweephand {
namespace {

// A signal has no owner that could pass the mappings to its handler: they are found from here.
// The handler may run at any moment, so slots are taken and released without a lock, and are
// never freed.
struct Slab {
  std::array<Mapping::Slot, 64> slots;
  std::atomic<Slab*> next = nullptr;
};

// NOLINTBEGIN(cppcoreguidelines-avoid-non-const-global-variables)
Slab first_slab;
std::atomic<Slab*> first_with_room = &first_slab;  // or one before it
struct sigaction before{};                         // the handler of the process, as it was
// NOLINTEND(cppcoreguidelines-avoid-non-const-global-variables)

Mapping::Slot& take_slot() {
  for (Slab* slab = first_with_room.load();;) {
    for (Mapping::Slot& slot : slab->slots) {
      if (slot.taken.load(std::memory_order_relaxed) || slot.taken.exchange(true)) continue;
      first_with_room = slab;
      return slot;
    }
    Slab* next = slab->next.load();
    if (next == nullptr) {
      auto added = std::make_unique<Slab>();
      // If another thread was first, `next` is that thread's slab.
      if (slab->next.compare_exchange_strong(next, added.get())) next = added.release();
    }
    slab = next;
  }
}

Mapping::Slot* find_slot(std::uintptr_t address) {
  for (Slab* slab = &first_slab; slab != nullptr; slab = slab->next.load()) {
    for (Mapping::Slot& slot : slab->slots) {
      if (slot.begin.load() <= address && address < slot.end.load()) return &slot;
    }
  }
  return nullptr;
}

std::uintptr_t page_size() {
  static const auto size = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

std::uintptr_t page_of(std::uintptr_t address) { return address & ~(page_size() - 1); }

// Replaces the page at `address` and those after it by zeros.
bool tear(Mapping::Slot& slot, std::uintptr_t address) {
  slot.torn = true;  // before there are zeros: a reader of zeros finds it set
  const std::uintptr_t begin = page_of(address);
  const std::size_t size = page_of(slot.end.load() - 1) + page_size() - begin;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the system gives an address
  return ::mmap(reinterpret_cast<void*>(begin), size, PROT_READ,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

void pass_on(int signal, siginfo_t* info, void* context) {
  if ((static_cast<unsigned>(before.sa_flags) & static_cast<unsigned>(SA_SIGINFO)) != 0) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) {
    before.sa_handler(signal);
  } else {
    // A read that failed fails again when this returns, a signal that was sent is sent again.
    ::sigaction(signal, &before, nullptr);
    if (info->si_code <= 0) std::raise(signal);
  }
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  Mapping::Slot* const slot =
      info->si_code > 0 ? find_slot(reinterpret_cast<std::uintptr_t>(info->si_addr)) : nullptr;
  if (slot == nullptr || !tear(*slot, reinterpret_cast<std::uintptr_t>(info->si_addr)))
    pass_on(signal, info, context);
  errno = error;
}

void install_handler() {
  static std::once_flag once;
  std::call_once(once, [] {
    page_size();  // asked for here, as the handler must not be the first
    struct sigaction action{};
    action.sa_sigaction = on_bus_error;
    action.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(SIGBUS, &action, &before);
  });
}

using std::chrono::nanoseconds;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr nanoseconds kSlowestTick = std::chrono::milliseconds(20);

// The clock from which the system takes the times of files, or a clock that is late by no more
// than its tick.
std::int64_t now_ns() {
#ifdef CLOCK_REALTIME_COARSE
  constexpr clockid_t kClock = CLOCK_REALTIME_COARSE;
#else
  constexpr clockid_t kClock = CLOCK_REALTIME;
#endif
  struct timespec now{};
  ::clock_gettime(kClock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// The granule to which the file system may have rounded the time: the largest power of ten that
// divides it, and 2 s where that is a second.
std::int64_t granule_of(std::int64_t time_ns) {
  std::int64_t granule = 1;
  while (granule < kSecond && time_ns % (granule * 10) == 0) granule *= 10;
  return granule < kSecond ? granule : 2 * kSecond;
}

// A piece of this many bytes is read by a call, which costs as much as mapping its pages, and
// does not count as memory of the process.
constexpr std::size_t kLarge = std::size_t{1} << 18;
constexpr std::chrono::milliseconds kBetweenLooks{1};
constexpr std::chrono::seconds kLongestWait{5};  // beyond any granule of a file system
constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // Darwin refuses 2 GiB in one call

[[noreturn]] void fail(const std::string& action, const std::string& path) {
  throw std::filesystem::filesystem_error("cannot " + action, path,
                                          std::error_code(errno, std::generic_category()));
}

int open_file(const std::string& path) {
  // Without O_NONBLOCK a pipe would wait for its writer.
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (descriptor < 0) fail("open", path);
  return descriptor;
}

// By its path if there is no descriptor.
struct stat look_at(int descriptor, const std::string& path) {
  struct stat status{};
  const int failed =
      descriptor < 0 ? ::stat(path.c_str(), &status) : ::fstat(descriptor, &status);
  if (failed != 0) fail("look at", path);
  return status;
}

std::int64_t to_ns(const struct timespec& time) {
  constexpr std::int64_t kNanoseconds = 1000000000;
  return time.tv_sec * kNanoseconds + time.tv_nsec;
}

FileTag to_tag(const struct stat& status) {
#ifdef __APPLE__
  const struct timespec& mtime = status.st_mtimespec;
#else
  const struct timespec& mtime = status.st_mtim;
#endif
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .mtime_ns = to_ns(mtime),
          .inode = status.st_ino};
}

std::int64_t changed_ns(const struct stat& status) {
#ifdef __APPLE__
  return to_ns(status.st_ctimespec);
#else
  return to_ns(status.st_ctim);
#endif
}

std::string describe(const FileTag& tag) {
  return std::to_string(tag.size) + " bytes, mtime " + std::to_string(tag.mtime_ns) +
         " ns, inode " + std::to_string(tag.inode);
}

void expect(const FileTag& expected, const FileTag& found, const std::string& path) {
  if (found == expected) return;
  throw StaleError("the file changed: expected " + describe(expected) + ", found " +
                       describe(found) + "; build its index again",
                   {.file = path});
}

}  // namespace

Mapping::Mapping(int descriptor, std::uint64_t size) {
  install_handler();
  void* const place = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, descriptor, 0);
  if (place == MAP_FAILED)
    throw std::system_error(errno, std::generic_category(), "cannot map a file");
  bytes_ = {static_cast<const std::byte*>(place), size};
  slot_ = &take_slot();
  slot_->torn = false;
  slot_->begin = reinterpret_cast<std::uintptr_t>(place);
  slot_->end = reinterpret_cast<std::uintptr_t>(place) + size;
}

Mapping::~Mapping() {
  slot_->end = 0;
  slot_->begin = 0;
  ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
  slot_->taken = false;
  first_with_room = &first_slab;
}

bool Mapping::torn() const noexcept { return slot_->torn; }

void ChangeTime::before_look() {
  clock_ns_ = now_ns();
  look_ = Clock::now();
}

bool ChangeTime::settles(std::int64_t found_ns) {
  if (found_ns != found_ns_) {
    found_ns_ = found_ns;
    first_look_ = Clock::now();  // it was over by now
  }
  const std::int64_t granule = granule_of(found_ns);
  return clock_ns_ - granule >= found_ns ||
         look_ - first_look_ >= nanoseconds(granule) + kSlowestTick;
}

PathStatuses look_at_all(std::span<const std::uint8_t> paths) {
  PathStatuses found;
  while (!paths.empty()) {
    const auto* const path = reinterpret_cast<const char*>(paths.data());
    struct stat status{};
    if (::stat(path, &status) != 0) status = {};
    paths = paths.subspan(std::strlen(path) + 1);
    const FileTag tag = to_tag(status);
    found.modes.push_back(status.st_mode);
    found.sizes.push_back(tag.size);
    found.mtimes_ns.push_back(tag.mtime_ns);
    found.devices.push_back(status.st_dev);
    found.inodes.push_back(tag.inode);
  }
  return found;
}

File::File(std::string path) : path_(std::move(path)), descriptor_(open_file(path_)) {
  try {
    ChangeTime time;
    time.before_look();
    const struct stat status = look_at(descriptor_, path_);
    if (!S_ISREG(status.st_mode)) throw DataError("not a regular file", {.file = path_});
    tag_ = to_tag(status);
    if (time.settles(changed_ns(status))) changed_ns_ = changed_ns(status);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

File::File(std::string path, const FileTag& tag) : File(std::move(path)) {
  expect(tag, tag_, path_);
}

File::~File() { close_descriptor(); }

void File::close_descriptor() noexcept {
  if (descriptor_ >= 0) ::close(std::exchange(descriptor_, -1));
}

bool File::map() {
  if (!mapping_ && size() > 0) {
    try {
      mapping_ = std::make_unique<const Mapping>(descriptor_, size());
    } catch (const std::system_error&) {
      return false;  // on certain file systems, or with too many mappings: then it is read
    }
  }
  return true;
}

void File::read(std::uint64_t offset, std::span<std::byte> out) const {
  read_untouched([&] {
    const std::int64_t since = begin_reading();
    read_unchecked(offset, out);
    check_unchanged(since);
  });
}

std::int64_t File::begin_reading() const {
  const std::int64_t known = changed_ns_.load(std::memory_order_acquire);
  return known != kUnsettled ? known : settle();
}

std::int64_t File::settle() const {
  for (ChangeTime time;; std::this_thread::sleep_for(kBetweenLooks)) {
    time.before_look();
    const struct stat status = look_at(descriptor_, path_);
    expect(tag_, to_tag(status), path_);
    const std::int64_t found = changed_ns(status);
    if (time.settles(found)) {
      changed_ns_.store(found, std::memory_order_release);
      return found;
    }
    if (time.elapsed() > kLongestWait) throw TouchedError(path_);
  }
}

void File::check_unchanged(std::int64_t since) const {
  const struct stat status = look_at(descriptor_, path_);
  expect(tag_, to_tag(status), path_);
  const bool touched = changed_ns(status) != since;
  if (torn()) {
    if (touched)
      throw StaleError("the file was cut while it was read, and is whole again: open it again",
                       {.file = path_});
    errno = EIO;  // the disk failed
    fail("read", path_);
  }
  if (!touched) return;
  settle();
  throw TouchedError(path_);
}

void File::read_unchecked(std::uint64_t offset, std::span<std::byte> out) const {
  if (offset > size() || out.size() > size() - offset)
    throw DataError("the file ends at " + std::to_string(size()) + ", before " +
                        std::to_string(out.size()) + " bytes could be read",
                    {.file = path_, .offset = offset});
  if (mapping_ && (out.size() < kLarge || descriptor_ < 0)) {
    std::memcpy(out.data(), mapping_->bytes().data() + offset, out.size());
    return;
  }
  while (!out.empty()) {
    const ssize_t count = ::pread(descriptor_, out.data(), std::min(out.size(), kMostAtOnce),
                                  static_cast<off_t>(offset));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail("read", path_);
    if (count == 0) {  // cut short, so it changed
      expect(tag_, to_tag(look_at(descriptor_, path_)), path_);
      throw DataError("the file ends early", {.file = path_, .offset = offset});
    }
    out = out.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

}  // namespace sweephand
