#include "image/problem.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/cpu_target.h"
#include "image/checks.h"
#include "image/host_pixels.h"
#include "image/process_cpu_kernels.h"
#include "image/spec.h"
#include "robocache/build_info.h"
#include "support/random.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

ImageSize out_size(const ImageProblem& problem) {
  const std::vector<std::int64_t> shape = problem.frames.shape();
  return output_size(problem.spec, {shape[1], shape[2]});
}

}  // namespace

AugmentStep& ImageProblem::add_step(AugmentKind kind, const std::vector<double>& values) {
  is_augmented = true;
  AugmentStep& step = augment.steps[augment.step_count++];
  step = {};
  step.kind = kind;
  for (std::size_t i = 0; i < values.size(); ++i) {
    step.low[i] = step.high[i] = static_cast<float>(values[i]);
  }
  return step;
}

std::int64_t ImageProblem::out_height() const { return out_size(*this).height; }
std::int64_t ImageProblem::out_width() const { return out_size(*this).width; }

Tensor ImageProblem::make_out() const {
  const std::vector<std::int64_t> shape = frames.shape();
  const std::int64_t height = out_height();
  const std::int64_t width = out_width();
  const std::vector<std::int64_t> last = {shape[0], height, width, shape[3]};
  const std::vector<std::int64_t> first = {shape[0], shape[3], height, width};
  const std::vector<std::int64_t>& shape_of_out = channels_first ? first : last;
  std::vector<std::int64_t> strides(4, 1);
  for (std::size_t i = 3; i > 0; --i) strides[i - 1] = strides[i] * shape_of_out[i];
  return {out_type, shape_of_out, strides, out_offset};
}

ImageWindow ImageProblem::window(Tensor& out) const {
  ImageWindow window;
  window.spec = spec;
  window.augment = is_augmented ? &augment : nullptr;
  window.frames = frames.view();
  window.is_pad = is_pad.empty() ? nullptr : reinterpret_cast<const bool*>(is_pad.data());
  window.frames_per_sample = frames_per_sample;
  for (std::size_t c = 0; c < subtract.size(); ++c) window.subtract[c] = subtract[c];
  for (std::size_t c = 0; c < multiply.size(); ++c) window.multiply[c] = multiply[c];
  window.channels_first = channels_first;
  window.out = out.view();
  return window;
}

ImageSamples ImageProblem::samples() const {
  return {nullptr, episodes.data(), rows.data(), is_augmented ? &epoch : nullptr};
}

std::string ImageProblem::text() const {
  return frames.text() + " -> " + name_of(out_type) + " " + std::to_string(out_height()) + "x" +
         std::to_string(out_width()) + ", mode " + std::to_string(static_cast<int>(spec.mode)) +
         ", filter " + std::to_string(static_cast<int>(spec.filter)) + ", steps " +
         std::to_string(augment.step_count);
}

ImageProblem make_image_problem(std::uint64_t seed, DataType type, std::int64_t count,
                                std::int64_t height, std::int64_t width, std::int64_t channels,
                                std::int64_t offset) {
  Random random(seed);
  ImageProblem problem;
  problem.frames = Tensor(type, {count, height, width, channels},
                          {height * width * channels, width * channels, channels, 1}, offset);
  problem.batch = count;
  const double most = type == DataType::kUInt16 ? 5000 : 255;
  for (std::int64_t i = 0; i < problem.frames.size(); ++i) {
    const double x = static_cast<double>(i / channels % width) / static_cast<double>(width);
    const double y =
        static_cast<double>(i / channels / width % height) / static_cast<double>(height);
    double value = most * (0.4 * x + 0.3 * y) + random.between(0, 0.3 * most);
    if (random.one_in(9)) value = random.one_in(2) ? 0 : most;
    if (type == DataType::kFloat32 || type == DataType::kFloat16) {
      if (random.one_in(30)) value = std::numeric_limits<double>::quiet_NaN();
      if (random.one_in(60)) value = std::numeric_limits<double>::infinity();
    } else {
      value = std::floor(value);
    }
    problem.frames.set(i, value);
  }
  for (std::int64_t b = 0; b < count; ++b) {
    problem.episodes.push_back(random.below(100));
    problem.rows.push_back(random.below(1000));
  }
  problem.augment.seed = seed;
  return problem;
}

ImageProblem random_image_problem(std::uint64_t seed) {
  Random random(seed);
  const bool is_bytes = !random.one_in(3);
  const DataType type =
      is_bytes ? DataType::kUInt8
               : random.pick({DataType::kUInt16, DataType::kFloat16, DataType::kFloat32});
  const std::int64_t channels = is_bytes ? random.pick({3, 3, 3, 1, 2, 4}) : random.pick({1, 3});
  const std::int64_t batch = 1 + random.below(3);
  const std::int64_t per_sample = 1 + random.below(2);
  const auto side = [&] { return random.one_in(4) ? 1 + random.below(5) : 1 + random.below(90); };
  ImageProblem problem = make_image_problem(seed + 1, type, batch * per_sample, side(), side(),
                                            channels, random.one_in(3) ? random.below(4) : 0);
  if (random.one_in(3)) problem.out_offset = random.below(4);
  problem.batch = batch;
  problem.frames_per_sample = per_sample;
  const std::vector<std::int64_t> shape = problem.frames.shape();
  ImageSpec& spec = problem.spec;
  if (!random.one_in(5)) {
    spec.height = static_cast<std::int32_t>(side());
    spec.width = static_cast<std::int32_t>(side());
  }
  spec.mode = random.pick({ResizeMode::kStretch, ResizeMode::kPad, ResizeMode::kCrop});
  spec.filter = random.pick({ResizeFilter::kBilinear, ResizeFilter::kBilinear,
                             ResizeFilter::kNearest, ResizeFilter::kMasked});
  if (random.one_in(3)) {
    spec.crop_height = static_cast<std::int32_t>(1 + random.below(shape[1]));
    spec.crop_width = static_cast<std::int32_t>(1 + random.below(shape[2]));
    spec.crop_top = static_cast<std::int32_t>(random.below(shape[1] - spec.crop_height + 1));
    spec.crop_left = static_cast<std::int32_t>(random.below(shape[2] - spec.crop_width + 1));
  }
  if (random.one_in(3)) spec.center = random.between(0.3, 1);
  problem.channels_first = random.one_in(2);
  problem.out_type = random.pick(
      {DataType::kUInt8, DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, type});
  if (random.one_in(2)) {
    for (std::int64_t c = 0; c < channels; ++c) {
      problem.subtract.push_back(random.between(0, 200));
      problem.multiply.push_back(random.between(-1, 1) / 50);
    }
  }
  if (random.one_in(4)) return problem;
  if (random.one_in(2)) problem.add_step(AugmentKind::kCrop, {random.between(0.3, 1)});
  if (random.one_in(2)) problem.add_step(AugmentKind::kRotation, {random.between(-0.5, 0.5)});
  if (random.one_in(5)) problem.add_step(AugmentKind::kFlip, {});
  if (random.one_in(4)) {
    problem.add_step(AugmentKind::kAffine,
                     {random.between(-3, 3), 0.1, -0.1, random.between(0.2, 2), 0.1, -0.1});
  }
  if (is_bytes && (channels == 3 || channels == 1)) {
    if (random.one_in(2)) {
      problem
          .add_step(AugmentKind::kJitter, {random.between(0.5, 1.5), random.between(0, 2),
                                           random.between(0, 2), random.between(-0.5, 0.5)})
          .mask = channels == 3 ? static_cast<std::int32_t>(random.below(16))
                                : static_cast<std::int32_t>(random.below(4));
    }
    if (random.one_in(4)) problem.add_step(AugmentKind::kGamma, {random.between(-1, 1)});
    if (random.one_in(4)) problem.add_step(AugmentKind::kShift, {random.between(-0.3, 0.3)});
    if (channels == 3 && random.one_in(5)) problem.add_step(AugmentKind::kGrayscale, {});
    if (random.one_in(4)) problem.add_step(AugmentKind::kSharpness, {random.between(0, 3)});
    if (random.one_in(4)) problem.add_step(AugmentKind::kNoise, {random.between(0, 0.2)});
  }
  if (random.one_in(4)) {
    problem.add_step(AugmentKind::kErase,
                     {random.between(0.02, 0.5), random.between(-1, 1), 0.2, 0.5, 0.9});
  }
  if (random.one_in(6)) problem.add_step(AugmentKind::kDropout, {}).probability = 0.5;
  if (random.one_in(2)) problem.augment.per_frame = 1;
  if (random.one_in(2)) {
    for (std::int64_t n = 0; n < shape[0]; ++n) {
      problem.is_pad.push_back(static_cast<std::uint8_t>(random.below(2)));
    }
  }
  problem.epoch = random.below(5);
  return problem;
}

Tensor process_on_cpu(const ImageProblem& problem) {
  Tensor out = problem.make_out();
  const std::vector<ImageWindow> windows = {problem.window(out)};
  const std::size_t bytes = process_images_workspace_bytes(windows, DeviceType::kCpu);
  std::vector<double> memory((bytes + 7) / 8);
  process_images(windows, problem.batch, problem.samples(), {memory.data(), bytes}, on_cpu());
  return out;
}

Tensor process_with(const std::string& target, const ImageProblem& problem) {
  Tensor out = problem.make_out();
  const ImageCall call = check_image_window(problem.window(out), 0, problem.batch,
                                            problem.samples(), DeviceType::kCpu);
  if (target == "pixels") {
    process_pixels(call);
    return out;
  }
  const ImageCpuKernels* kernels = &baseline::image_cpu_kernels();
#if defined(ROBOCACHE_TEST_X86_KERNELS)
  if (target == "avx2") kernels = &avx2::image_cpu_kernels();
  if (target == "avx512") kernels = &avx512::image_cpu_kernels();
#endif
  std::vector<double> recipes(static_cast<std::size_t>(call.plan.count) * kRecipeBytes / 8);
  std::vector<double> scratch(
      static_cast<std::size_t>(ImageScratchSizes(call.plan).total_bytes() / 8));
  kernels->prepare(call.plan, call.draw, 0, call.plan.count, recipes.data());
  for (std::int64_t n = 0; n < call.plan.count; ++n) {
    // Bands of any size give the same rows.
    for (std::int32_t begin = 0; begin < call.plan.out_height;) {
      const std::int32_t end = std::min(begin + 7 + begin % 5, call.plan.out_height);
      kernels->process(call.plan, &recipes[static_cast<std::size_t>(n) * kRecipeBytes / 8], n,
                       begin, end, scratch.data());
      begin = end;
    }
  }
  return out;
}

Tensor process_on_gpu(const ImageProblem& problem, bool is_captured) {
#if defined(ROBOCACHE_HAS_CUDA)
  const auto upload = [](const auto& values) {
    const std::size_t bytes = values.size() * sizeof(values[0]);
    DeviceMemory memory = device_memory(bytes);
    expect_success(cudaMemcpy(memory.get(), values.data(), bytes, cudaMemcpyHostToDevice));
    return memory;
  };
  Tensor out = problem.make_out();
  ImageWindow window = problem.window(out);
  const DeviceCopy frames(window.frames);
  const DeviceCopy result(window.out);
  const DeviceMemory is_pad = upload(problem.is_pad);
  const DeviceMemory episodes = upload(problem.episodes);
  const DeviceMemory rows = upload(problem.rows);
  const DeviceMemory epoch = upload(std::vector<std::int64_t>{problem.epoch});
  window.frames = frames.view();
  window.out = result.view();
  if (window.is_pad != nullptr) window.is_pad = static_cast<const bool*>(is_pad.get());
  const auto numbers = [](const DeviceMemory& memory) {
    return static_cast<const std::int64_t*>(memory.get());
  };
  const ImageSamples samples{nullptr, numbers(episodes), numbers(rows),
                             problem.is_augmented ? numbers(epoch) : nullptr};
  const std::vector<ImageWindow> windows = {window};
  const DeviceScratch scratch(process_images_workspace_bytes(windows, DeviceType::kCuda));
  const CudaStream stream;
  expect_success(cudaDeviceSynchronize());
  const auto process = [&] {
    process_images(windows, problem.batch, samples, scratch, on_cuda(stream.get()));
  };
  if (is_captured) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t replay = nullptr;
    expect_success(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal));
    process();
    expect_success(cudaStreamEndCapture(stream.get(), &graph));
    expect_success(cudaGraphInstantiate(&replay, graph, 0));
    for (int i = 0; i < 2; ++i) expect_success(cudaGraphLaunch(replay, stream.get()));
    stream.wait();
    expect_success(cudaGraphExecDestroy(replay));
    expect_success(cudaGraphDestroy(graph));
  } else {
    process();
    stream.wait();
  }
  result.copy_back();
  return out;
#else
  (void)problem;
  (void)is_captured;
  throw std::logic_error(cuda_problem(0));
#endif
}

std::string bit_difference(const Tensor& expected, const Tensor& got) {
  if (expected.bytes() == got.bytes()) return "";
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const double a = expected.get(i);
    const double b = got.get(i);
    if (std::memcmp(&a, &b, sizeof a) != 0 && !(std::isnan(a) && std::isnan(b))) {
      return "element " + std::to_string(i) + ": expected " + std::to_string(a) + ", got " +
             std::to_string(b);
    }
  }
  return "";  // NaN of other bits
}

}  // namespace robocache::testing
