#include "points/sampling.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "robocache/build_info.h"
#include "support/random.h"
#include "support/scratch.h"
#if defined(ROBOCACHE_HAS_CUDA)
#include "support/device.h"
#endif

namespace robocache::testing {
namespace {

void backwards(void* /*pool*/, std::int64_t count, std::int64_t grain, ParallelBody body,
               void* body_data) {
  std::int64_t end = count;
  for (std::int64_t parts = 1; end > 0; ++parts) {
    const std::int64_t begin = std::max<std::int64_t>(0, end - grain * parts / 2 - 1);
    body(body_data, begin, end);
    end = begin;
  }
}

bool is_batched(const Sampling& call) {
  return call.offsets.present() || call.points.shape().size() == 3;
}

std::int64_t offset_of(const Tensor& offsets, std::int64_t i) {
  return offsets.type() == DataType::kInt64 ? offsets.get_int(i)
                                            : static_cast<std::int64_t>(offsets.get(i));
}

/// The samples of the points [first, first + count) in the type of the distances.
template <typename Real>
std::vector<std::int64_t> sample_cloud(const Sampling& call, std::int64_t first,
                                       std::int64_t count) {
  struct Point {
    Real x[3];
    Real distance;
  };
  std::vector<Point> points(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) {
    Point& point = points[static_cast<std::size_t>(i)];
    bool is_finite = true;
    for (int axis = 0; axis < 3; ++axis) {
      point.x[axis] = static_cast<Real>(call.points.get((first + i) * 3 + axis));
      is_finite = is_finite && std::isfinite(point.x[axis]);
    }
    point.distance = is_finite ? std::numeric_limits<Real>::infinity() : Real{-1};
  }
  const auto farthest = [&] {
    std::int64_t found = -1;
    Real most = -1;
    for (std::int64_t i = 0; i < count; ++i) {
      const Real distance = points[static_cast<std::size_t>(i)].distance;
      if (distance > most) {
        most = distance;
        found = i;
      }
    }
    return found;
  };
  const bool has_start =
      call.start < count && points[static_cast<std::size_t>(call.start)].distance > 0;
  std::int64_t sample = has_start ? call.start : farthest();
  std::vector<std::int64_t> samples;
  for (std::int64_t i = 0; i < call.n; ++i) {
    samples.push_back(sample);
    if (sample < 0) continue;
    const Point chosen = points[static_cast<std::size_t>(sample)];
    for (Point& point : points) {
      if (point.distance < 0) continue;
      Real sum = 0;
      for (int axis = 0; axis < 3; ++axis) {
        const Real difference = point.x[axis] - chosen.x[axis];
        const Real square = difference * difference;
        sum = axis == 0 ? square : sum + square;
      }
      point.distance = std::min(point.distance, sum);
    }
    sample = farthest();
  }
  return samples;
}

}  // namespace

std::int64_t Sampling::clouds() const {
  if (offsets.present()) return offsets.size() - 1;
  return points.shape().size() == 3 ? points.shape()[0] : 1;
}

std::string Sampling::text() const {
  return ", points " + points.text() + ", offsets " +
         (offsets.present() ? offsets.text() : "none") + ", n " + std::to_string(n) + ", start " +
         std::to_string(start);
}

std::string sampling_engine_problem(const std::string& engine) {
  return engine == "cuda" ? cuda_problem(0) : "";
}

std::string difference_of(const std::vector<std::int64_t>& expected,
                          const std::vector<std::int64_t>& got) {
  if (expected.size() != got.size()) return "the numbers of samples differ";
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (expected[i] == got[i]) continue;
    return "sample " + std::to_string(i) + " is " + std::to_string(got[i]) + " instead of " +
           std::to_string(expected[i]);
  }
  return "";
}

std::vector<std::int64_t> run_sampling(const std::string& engine, const Sampling& call) {
  Tensor indices(DataType::kInt64,
                 is_batched(call) ? std::vector{call.clouds(), call.n} : std::vector{call.n});
  indices.fill_bytes(0x5A);
  if (engine != "cuda") {
    const ExecutionContext context = on_cpu(engine == "cpu" ? parallel_for_threads : backwards);
    const Scratch workspace(
        sample_farthest_workspace_bytes(call.points.view(), call.offsets.view(), context));
    sample_farthest(call.points.view(), call.offsets.view(), call.start, indices.view(), workspace,
                    context);
  } else {
#if defined(ROBOCACHE_HAS_CUDA)
    const DeviceCopy<const void> points(call.points.view());
    const DeviceCopy<const void> offsets(call.offsets.view());
    const DeviceCopy<void> out(indices.view());
    const CudaStream stream;
    const ExecutionContext context = on_cuda(stream.get());
    const DeviceScratch workspace(
        sample_farthest_workspace_bytes(points.view(), offsets.view(), context));
    sample_farthest(points.view(), offsets.view(), call.start, out.view(), workspace, context);
    stream.wait();
    out.copy_back();
#else
    throw std::logic_error(sampling_engine_problem(engine));
#endif
  }
  std::vector<std::int64_t> result(static_cast<std::size_t>(indices.size()));
  for (std::size_t i = 0; i < result.size(); ++i) {
    result[i] = indices.get_int(static_cast<std::int64_t>(i));
  }
  return result;
}

std::vector<std::int64_t> reference_sampling(const Sampling& call) {
  const std::vector<std::int64_t> shape = call.points.shape();
  std::vector<std::int64_t> all;
  for (std::int64_t b = 0; b < call.clouds(); ++b) {
    const bool is_ragged = call.offsets.present();
    const std::int64_t count = is_ragged
                                   ? offset_of(call.offsets, b + 1) - offset_of(call.offsets, b)
                                   : shape[shape.size() - 2];
    const std::int64_t first = is_ragged ? offset_of(call.offsets, b) : b * count;
    const std::vector<std::int64_t> samples = call.points.type() == DataType::kFloat64
                                                  ? sample_cloud<double>(call, first, count)
                                                  : sample_cloud<float>(call, first, count);
    for (const std::int64_t sample : samples) {
      all.push_back(sample >= 0 && is_ragged ? first + sample : sample);
    }
  }
  return all;
}

Sampling random_sampling(std::uint64_t seed, std::int64_t clouds, std::int64_t points,
                         DataType type) {
  Random random(seed);
  Sampling call;
  call.points = Tensor(type, {clouds, points, 3});
  const bool is_lattice = random.one_in(3);  // many distances are equal
  for (std::int64_t i = 0; i < clouds * points; ++i) {
    for (int axis = 0; axis < 3; ++axis) {
      const double x = random.between(-4, 4);
      call.points.set(i * 3 + axis, is_lattice ? std::floor(x) : x);
    }
    if (!random.one_in(20)) continue;
    const double special[] = {std::numeric_limits<double>::quiet_NaN(),
                              std::numeric_limits<double>::infinity(),
                              -std::numeric_limits<double>::infinity()};
    call.points.set(i * 3 + random.below(3), random.pick(special));
  }
  call.n = 1 + random.below(40);
  call.start = random.below(std::max<std::int64_t>(1, points));
  return call;
}

Sampling random_sampling(std::uint64_t seed) {
  Random random(seed);
  const DataType type = random.pick(
      {DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32, DataType::kFloat64});
  const std::int64_t clouds = random.below(5);
  const std::int64_t each = random.pick<std::int64_t>({0, 1, 2, 7, 33, 600});
  Sampling call = random_sampling(seed, std::max<std::int64_t>(1, clouds), each, type);
  const Tensor packed = call.points;
  const bool is_flat = random.one_in(2);
  const std::int64_t count = packed.size() / 3;
  const std::int64_t step = 1 + random.below(2);
  const std::int64_t row = random.one_in(4) ? -3 * step : 3 * step + random.below(2);
  const bool is_column_major = random.one_in(4);
  const auto strided = [&](const std::vector<std::int64_t>& shape) {
    std::vector<std::int64_t> strides;
    if (is_column_major) {
      strides = {1, std::max<std::int64_t>(1, count)};
    } else {
      strides = {row, step};
    }
    if (shape.size() == 3) strides.insert(strides.begin(), strides[0] * shape[1]);
    return Tensor(type, shape, strides, random.below(3));
  };
  call.points =
      is_flat ? strided({count, 3}) : strided({std::max<std::int64_t>(1, clouds), each, 3});
  for (std::int64_t i = 0; i < packed.size(); ++i) call.points.set(i, packed.get(i));
  if (is_flat && random.one_in(2)) {
    std::vector<std::int64_t> ends{0, count};
    for (std::int64_t i = 1; i < clouds; ++i) ends.push_back(random.below(count + 1));
    std::sort(ends.begin(), ends.end());
    const bool is_int32 = random.one_in(2);
    call.offsets = Tensor(is_int32 ? DataType::kInt32 : DataType::kInt64,
                          {static_cast<std::int64_t>(ends.size())});
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const auto at = static_cast<std::int64_t>(i);
      if (is_int32) {
        call.offsets.set(at, static_cast<double>(ends[i]));
      } else {
        call.offsets.set_int(at, ends[i]);
      }
    }
  }
  return call;
}

}  // namespace robocache::testing
