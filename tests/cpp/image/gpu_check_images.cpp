// The kernels of process_images on small frames, beside the CPU.
#include <string>

#include "image/problem.h"
#include "support/gpu_check.h"

namespace robocache::testing {

void check_images() {
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    const ImageProblem problem = random_image_problem(seed);
    check("images, seed " + std::to_string(seed) + ", " + problem.text(),
          bit_difference(process_on_cpu(problem), process_on_gpu(problem, false)));
  }
}

}  // namespace robocache::testing
