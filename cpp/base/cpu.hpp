// Features of this processor beyond the platform's baseline.
#pragma once

namespace sweephand {

// Instruction sets for which functions have a variant beside the portable one. Such a function
// asks when it is called, `if (cpu().avx2) return move_avx2(...)`, and ends with the portable
// variant, which gives the same bits.
struct Cpu {
  bool crc32c = false;  // SSE4.2 and carry-less products
  bool f16c = false;    // halves to floats and back
  bool avx2 = false;    // with FMA, F16C, BMI and BMI2
  bool bmi2 = false;    // but where the processor has some of it as slow programs
  bool avx512 = false;  // F, BW and VBMI2, with BMI2
};

const Cpu& cpu() noexcept;

}  // namespace sweephand
