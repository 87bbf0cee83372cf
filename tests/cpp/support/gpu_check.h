// The parts of robocache_gpu_check, each in a file of its own, and what they share.
#pragma once

#include <string>

#include "support/tensor.h"

namespace robocache::testing {

/// The counts of all parts together.
struct Tally {
  int comparisons = 0, failures = 0;
};
Tally& tally();

void fail(const std::string& what, const std::string& why);
/// Counts a comparison, which found what is wrong; "" if nothing is.
void check(const std::string& what, const std::string& wrong);

/// Nothing if the arrays agree: by value for exact methods, else to `slack` of their size.
std::string compare(const Tensor& expected, const Tensor& got, double slack);

// gpu_check_align.cpp
void check_plain_kernels();
void check_runs_kernels();
void check_streams();
void check_wide_kernel();
void check_random_problems();
void check_bad_input();

// gpu_check_voxels.cpp
void check_voxelization();
void check_no_clouds();
void check_bad_offsets();

// gpu_check_points.cpp
void check_sampling();

// gpu_check_images.cpp
void check_images();

// gpu_check_jpeg.cpp
void check_jpeg();

// gpu_check_loader.cpp
void check_loader();
void check_bad_loader_input();

}  // namespace robocache::testing
