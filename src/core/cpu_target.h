// Which of the instruction sets compiled in this machine is given.
#pragma once

namespace robocache {

enum class CpuTarget { kBaseline, kAvx2, kAvx512 };

/// Decided on the first call, for the life of the process.
CpuTarget cpu_target();

const char* cpu_target_name(CpuTarget target);

}  // namespace robocache
