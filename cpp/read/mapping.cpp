#include "read/mapping.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <mutex>
#include <sys/mman.h>
#include <system_error>
#include <unistd.h>

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

}  // namespace sweephand
