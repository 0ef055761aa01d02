// What this processor can do, where compilers have no test of their own for it.
#pragma once

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace sweephand {

// Halves to floats and back in eights. What the system lets programs use is in the compilers'
// test for avx; their names for this one differ.
inline bool has_f16c() noexcept {
#ifdef __x86_64__
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return __builtin_cpu_supports("avx") && (ecx & bit_F16C) != 0;
#else
  return false;
#endif
}

}  // namespace sweephand
