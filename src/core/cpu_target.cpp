#include "core/cpu_target.h"

namespace robocache {

CpuTarget cpu_target() {
#if defined(ROBOCACHE_X86_TARGETS)
  // The CPU features that the compiler flags of each set require (cmake/RobocacheLibrary.cmake).
  static const CpuTarget target = [] {
    __builtin_cpu_init();
    const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi2");
    const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return avx2 && avx512 ? CpuTarget::kAvx512 : avx2 ? CpuTarget::kAvx2 : CpuTarget::kBaseline;
  }();
  return target;
#else
  return CpuTarget::kBaseline;
#endif
}

const char* cpu_target_name(CpuTarget target) {
  switch (target) {
    case CpuTarget::kAvx512:
      return "avx512";
    case CpuTarget::kAvx2:
      return "avx2";
    case CpuTarget::kBaseline:
      break;
  }
  return "baseline";
}

}  // namespace robocache
