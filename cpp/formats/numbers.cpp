#include "formats/numbers.hpp"

#include "base/cpu.hpp"
#include "formats/decimal.hpp"

namespace sweephand {
namespace numbers {

template <std::floating_point T>
NumberRun read_numbers_portable(const char* text, NumberRoom<T> room) noexcept {
  NumberRun run{.end = text};
  while (*run.end == ' ' && run.count < room.count) {
    const char* const at = run.end + 1;
    const Decimal<T> number = decimal::read_marked<T>(at, decimal::mark(at), 0);
    if (number.end == nullptr) break;
    room.values[run.count++] = number.value;
    run.end = number.end;
  }
  return run;
}

template <std::floating_point T>
NumberRun read_pairs_portable(const char* text, std::uint64_t dimension,
                              NumberRoom<T> room) noexcept {
  NumberRun run{.end = text};
  while (*run.end == ' ' && run.count < room.count) {
    const char* const at = run.end + 1;
    const Digits index = read_digits(at);
    if (index.end == at || index.end - at > 8 || *index.end != ':' || index.value >= dimension)
      break;
    const char* const behind = index.end + 1;
    const Decimal<T> number = decimal::read_marked<T>(behind, decimal::mark(behind), 0);
    if (number.end == nullptr) break;
    room.indices[run.count] = static_cast<std::int32_t>(index.value);
    room.values[run.count++] = number.value;
    run.end = number.end;
  }
  return run;
}

template NumberRun read_numbers_portable(const char*, NumberRoom<float>) noexcept;
template NumberRun read_numbers_portable(const char*, NumberRoom<double>) noexcept;
template NumberRun read_pairs_portable(const char*, std::uint64_t, NumberRoom<float>) noexcept;
template NumberRun read_pairs_portable(const char*, std::uint64_t, NumberRoom<double>) noexcept;

}  // namespace numbers

template <std::floating_point T>
NumberRun read_numbers(const char* text, NumberRoom<T> room) noexcept {
#ifdef __x86_64__
  if (cpu().avx2) return numbers::read_numbers_avx2(text, room);
#endif
  return numbers::read_numbers_portable(text, room);
}

template <std::floating_point T>
NumberRun read_pairs(const char* text, std::uint64_t dimension, NumberRoom<T> room) noexcept {
#ifdef __x86_64__
  if (cpu().avx2) return numbers::read_pairs_avx2(text, dimension, room);
#endif
  return numbers::read_pairs_portable(text, dimension, room);
}

template NumberRun read_numbers(const char*, NumberRoom<float>) noexcept;
template NumberRun read_numbers(const char*, NumberRoom<double>) noexcept;
template NumberRun read_pairs(const char*, std::uint64_t, NumberRoom<float>) noexcept;
template NumberRun read_pairs(const char*, std::uint64_t, NumberRoom<double>) noexcept;

}  // namespace sweephand
