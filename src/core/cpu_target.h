// Which of the instruction sets compiled in this machine is given.
#pragma once

namespace robocache {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

/// Decided on the first call, for the life of the process.
CpuTarget cpu_target();

const char* cpu_target_name(CpuTarget target);

/// The one that is for this machine, of what the build has for each instruction set.
template <typename T>
T choose_for_cpu(T baseline, T avx2, T avx512) {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return avx512;
    case CpuTarget::kAvx2:
      return avx2;
    case CpuTarget::kBaseline:
      break;
  }
  return baseline;
}

}  // namespace robocache

/// That copy of a function that stands in the namespace of each instruction set:
/// ROBOCACHE_FOR_CPU(f)().
#if defined(ROBOCACHE_X86_TARGETS)
#define ROBOCACHE_FOR_CPU(function) \
  ::robocache::choose_for_cpu(baseline::function, avx2::function, avx512::function)
#else
#define ROBOCACHE_FOR_CPU(function) baseline::function
#endif
