// Every instruction set gives the bits that the definition of a pixel gives, one after the other.
#include <gtest/gtest.h>

#include "core/cpu_target.h"
#include "image/problem.h"

namespace robocache::testing {
namespace {

std::vector<std::string> targets_of_this_cpu() {
  std::vector<std::string> targets = {"baseline"};
#if defined(ROBOCACHE_TEST_X86_KERNELS)
  if (cpu_target() != CpuTarget::kBaseline) targets.emplace_back("avx2");
  if (cpu_target() == CpuTarget::kAvx512) targets.emplace_back("avx512");
#endif
  return targets;
}

TEST(ImageTargets, GiveTheBitsOfTheDefinition) {
  for (std::uint64_t seed = 0; seed < 600; ++seed) {
    const ImageProblem problem = random_image_problem(seed);
    const Tensor expected = process_with("pixels", problem);
    for (const std::string& target : targets_of_this_cpu()) {
      ASSERT_EQ(bit_difference(expected, process_with(target, problem)), "")
          << target << ", seed " << seed << ": " << problem.text();
    }
    ASSERT_EQ(bit_difference(expected, process_on_cpu(problem)), "")
        << "seed " << seed << ": " << problem.text();
  }
}

}  // namespace
}  // namespace robocache::testing
