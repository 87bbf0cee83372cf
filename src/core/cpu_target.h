// Selection among the compiled instruction sets for this machine's CPU.
#pragma once

namespace robocache {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

/// The best compiled instruction set that this CPU supports, determined on the first call.
CpuTarget cpu_target();

const char* cpu_target_name(CpuTarget target);

/// Returns the argument for this machine's instruction set.
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

/// The copy of a function for this machine, from the namespace of its instruction set. Usage:
/// ROBOCACHE_FOR_CPU(f)().
#if defined(ROBOCACHE_X86_TARGETS)
#define ROBOCACHE_FOR_CPU(function) \
  ::robocache::choose_for_cpu(baseline::function, avx2::function, avx512::function)
#else
#define ROBOCACHE_FOR_CPU(function) baseline::function
#endif
