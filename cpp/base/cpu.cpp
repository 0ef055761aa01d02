#include "base/cpu.hpp"

#ifdef __x86_64__
#include <cpuid.h>
#endif

namespace sweephand {
namespace {

#ifdef __x86_64__

// The compilers' test for avx includes the system's support; their names for this feature
// differ.
bool has_f16c() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return false;
  return __builtin_cpu_supports("avx") && (ecx & bit_F16C) != 0;
}

Cpu look() noexcept {
  // The first two generations of Zen run BMI2 in microcode.
  const bool is_zen = __builtin_cpu_is("znver1") || __builtin_cpu_is("znver2");
  const bool f16c = has_f16c();
  const bool bmi2 = __builtin_cpu_supports("bmi2") && !is_zen;
  return {.crc32c = __builtin_cpu_supports("sse4.2") && __builtin_cpu_supports("pclmul"),
          .f16c = f16c,
          .avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c &&
                  __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"),
          .bmi2 = bmi2,
          .avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512vbmi2") && bmi2};
}

#else

Cpu look() noexcept { return {}; }

#endif

}  // namespace

const Cpu& cpu() noexcept {
  static const Cpu only = look();
  return only;
}

}  // namespace sweephand
