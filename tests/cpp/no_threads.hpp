// A system that has no more threads to give, as under a limit of processes.
#pragma once

#include <cstddef>
#include <pthread.h>

namespace sweephand {

// As long as it lives no thread can be started: each would get a stack that fits nowhere.
// Where the C library has no such default, nothing happens.
class NoThreads {
 public:
  NoThreads() { set(std::size_t{1} << 46); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;
  ~NoThreads() { set(std::size_t{1} << 23); }

 private:
  static void set([[maybe_unused]] std::size_t stack_bytes) {
#ifdef __GLIBC__
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_setattr_default_np(&attributes);
    pthread_attr_destroy(&attributes);
#endif
  }
};

}  // namespace sweephand
