// Calls of process_images with memory of their own, and random ones.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "robocache/augment.h"
#include "robocache/image.h"
#include "support/tensor.h"

namespace robocache::testing {

/// A window, its source frames and the samples that its draws depend on.
struct ImageProblem {
  ImageSpec spec;
  Tensor frames;
  std::int64_t out_offset = 0;       // elements between the start of the memory and the output
  std::vector<std::uint8_t> is_pad;  // [N], or empty
  std::int64_t batch = 1, frames_per_sample = 1;
  std::vector<double> subtract, multiply;
  bool channels_first = false;
  DataType out_type = DataType::kFloat32;
  AugmentPlan augment;
  bool is_augmented = false;
  std::int64_t epoch = 0;
  std::vector<std::int64_t> episodes, rows;  // [batch]

  /// Steps of an AugmentPlan whose ranges are single numbers.
  AugmentStep& add_step(AugmentKind kind, const std::vector<double>& values);

  /// The output's height and width.
  std::int64_t out_height() const;
  std::int64_t out_width() const;
  Tensor make_out() const;
  /// The window, with the problem's host memory.
  ImageWindow window(Tensor& out) const;
  ImageSamples samples() const;
  std::string text() const;
};

/// Frames of random pixels: gradients with noise, and depth with missing measurements. They begin
/// `offset` elements after the start of their memory.
ImageProblem make_image_problem(std::uint64_t seed, DataType type, std::int64_t count,
                                std::int64_t height, std::int64_t width, std::int64_t channels,
                                std::int64_t offset = 0);

/// A problem of any options, drawn from a seed.
ImageProblem random_image_problem(std::uint64_t seed);

/// Runs process_images on the CPU.
Tensor process_on_cpu(const ImageProblem& problem);

/// How process_images of one instruction set, "baseline", "avx2" or "avx512", answers; and one
/// pixel after the other by image/pixel.h, "pixels".
Tensor process_with(const std::string& target, const ImageProblem& problem);

/// Runs process_images on a GPU, or replays a graph that has captured it.
Tensor process_on_gpu(const ImageProblem& problem, bool is_captured);

/// The first difference of two outputs, empty if their bits are equal.
std::string bit_difference(const Tensor& expected, const Tensor& got);

}  // namespace robocache::testing
