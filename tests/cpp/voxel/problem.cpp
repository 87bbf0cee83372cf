#include "voxel/problem.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>

#include "align/random_problem.h"
#include "support/numbers.h"
#include "support/random.h"

namespace robocache::testing {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

/// Memory laid out one way or another: rows one after another, with gaps, backwards, or column by
/// column.
Tensor any_layout(DataType type, const std::vector<std::int64_t>& shape, Random& random) {
  const std::size_t rank = shape.size();
  std::vector<std::int64_t> strides(rank);
  const std::int64_t layout = random.below(5);
  std::int64_t stride = layout == 1 ? 2 : 1;
  for (std::size_t step = 0; step < rank; ++step) {
    const std::size_t axis = layout == 2 ? step : rank - 1 - step;
    strides[axis] = stride;
    stride *= shape[axis] + (layout == 3 ? 1 : 0);
  }
  if (layout == 4 && rank > 1) strides[rank - 2] = -strides[rank - 2];
  return {type, shape, strides, layout > 0 ? random.below(4) : 0};
}

VoxelGrid random_grid(Random& random) {
  VoxelGrid grid;
  for (int axis = 0; axis < 3; ++axis) {
    grid.shape[axis] = 1 + random.below(random.pick<std::int64_t>({1, 4, 12}));
    grid.geometry.voxel_size[axis] = random.pick({0.1, 1.0, 0.25, 1.0 / 3, 0.07});
  }
  if (random.one_in(2)) {
    center_on_zero(grid);
  } else {
    const double far = random.pick({0.0, 1.7, 4.0e6});
    for (double& x : grid.geometry.origin) x = random.one_in(2) ? far : random.between(-far, far);
  }
  return grid;
}

/// A coordinate in the grid or around it, on a face, or nowhere.
double random_coordinate(const VoxelGrid& grid, int axis, Random& random) {
  const double size = grid.geometry.voxel_size[axis];
  const double origin = grid.geometry.origin[axis];
  const auto cells = static_cast<double>(grid.shape[axis]);
  if (random.one_in(4)) return origin + std::floor(random.between(-1, cells + 2)) * size;
  if (random.one_in(200)) {
    return random.pick({kNan, kInfinity, -kInfinity, origin + 3e3, origin - 3e3});
  }
  return origin + random.between(-0.3, cells + 0.3) * size;
}

Tensor random_offsets(std::int64_t batch, std::int64_t points, Random& random) {
  std::vector<std::int64_t> offsets(static_cast<std::size_t>(batch) + 1);
  for (std::int64_t b = 1; b < batch; ++b) offsets[b] = random.below(points + 1);
  std::sort(offsets.begin(), offsets.begin() + batch);
  offsets[batch] = points;
  Tensor tensor =
      any_layout(random.one_in(2) ? DataType::kInt64 : DataType::kInt32, {batch + 1}, random);
  for (std::int64_t b = 0; b <= batch; ++b) {
    if (tensor.type() == DataType::kInt64) {
      tensor.set_int(b, offsets[b]);
    } else {
      tensor.set(b, static_cast<double>(offsets[b]));
    }
  }
  return tensor;
}

}  // namespace

std::int64_t VoxelProblem::batch() const {
  if (offsets.present()) return offsets.size() - 1;
  return points.shape().size() == 3 ? points.shape()[0] : 1;
}

std::int64_t VoxelProblem::channels() const {
  return features.present() ? features.shape().back() : 1;
}

std::string VoxelProblem::text() const {
  std::ostringstream text;
  text.precision(17);
  text << "\npoints " << points.text() << "\nfeatures " << features.text() << "\noffsets "
       << offsets.text() << "\nmode " << static_cast<int>(mode) << " to " << name_of(out_type);
  for (int axis = 0; axis < 3; ++axis) {
    text << "\n"
         << grid.shape[axis] << " cells of " << grid.geometry.voxel_size[axis] << " from "
         << grid.geometry.origin[axis];
  }
  return text.str();
}

Tensor VoxelProblem::make_grid() const {
  std::vector<std::int64_t> shape;
  if (is_batched()) shape.push_back(batch());
  if (mode >= VoxelMode::kMean) shape.push_back(channels());
  shape.insert(shape.end(), grid.shape, grid.shape + 3);
  return {out_type, shape};
}

Tensor VoxelProblem::make_dropped() const {
  return {DataType::kInt64,
          is_batched() ? std::vector<std::int64_t>{batch()} : std::vector<std::int64_t>{}};
}

Tensor VoxelProblem::make_point_to_voxel() const {
  std::vector<std::int64_t> shape = points.shape();
  shape.pop_back();
  return {DataType::kInt64, shape};
}

VoxelProblem random_voxel_problem(std::uint64_t seed, const VoxelWanted& wanted) {
  Random random(seed);
  VoxelProblem problem;
  problem.grid = random_grid(random);
  const bool needs_features = wanted.is_sparse || wanted.is_differentiable;
  problem.mode = wanted.mode      ? *wanted.mode
                 : needs_features ? random.pick(kFeatureModes)
                                  : random.pick(kVoxelModes);
  const bool has_features = problem.mode >= VoxelMode::kMean &&
                            (!wanted.is_sparse || wanted.is_differentiable || !random.one_in(4));

  const std::int64_t most = random.pick<std::int64_t>({0, 1, 40, 700, 3000});
  const std::int64_t points = random.below(most + 1);
  const std::int64_t batch = random.one_in(16) ? 0 : 1 + random.below(5);
  std::vector<std::int64_t> rows;  // the shape but for the last axis
  switch (random.below(3)) {
    case 0:
      rows = {points};
      break;
    case 1:
      rows = {batch, points / 3};
      break;
    default:
      rows = {batch == 0 ? 0 : points};
      problem.offsets = random_offsets(batch, rows[0], random);
  }
  const auto with_columns = [&](std::int64_t columns) {
    std::vector<std::int64_t> shape = rows;
    shape.push_back(columns);
    return shape;
  };
  const DataType point_type = wanted.point_type ? *wanted.point_type : random.pick(kFloatingTypes);
  problem.points = any_layout(point_type, with_columns(3), random);
  for (std::int64_t i = 0; i < problem.points.size(); ++i) {
    problem.points.set(i, random_coordinate(problem.grid, static_cast<int>(i % 3), random));
  }
  if (has_features) {
    DataType type = wanted.feature_type ? *wanted.feature_type : random.pick(kValueTypes);
    if (wanted.is_differentiable && type == DataType::kUInt8) type = DataType::kFloat32;
    const std::int64_t channels = random.pick<std::int64_t>({0, 1, 3, 4, 4, 17, 33});
    problem.features = any_layout(type, with_columns(channels), random);
    fill_at_random(problem.features, random, type == DataType::kUInt8 ? 300 : 4);
    for (std::int64_t i = 0; i < problem.features.size(); ++i) {
      // Ties, and what is no number.
      if (random.one_in(5)) problem.features.set(i, 2);
      if (random.one_in(100)) problem.features.set(i, random.pick({kNan, kInfinity, -kInfinity}));
    }
  }
  if (wanted.out_type) {
    problem.out_type = *wanted.out_type;
  } else if (problem.mode == VoxelMode::kOccupancy) {
    problem.out_type =
        random.pick({DataType::kFloat16, DataType::kBFloat16, DataType::kFloat32,
                     DataType::kFloat64, DataType::kUInt8, DataType::kInt32, DataType::kBool});
  } else if (problem.mode == VoxelMode::kCount) {
    problem.out_type =
        random.pick({DataType::kInt32, DataType::kInt64, DataType::kFloat32, DataType::kFloat64});
  } else {
    problem.out_type = random.pick(kValueTypes);
    if (wanted.is_differentiable && problem.out_type == DataType::kUInt8) {
      problem.out_type = DataType::kFloat64;
    }
  }
  return problem;
}

std::string difference_of(const char* what, const Tensor& expected, const Tensor& got) {
  if (expected.present() != got.present() || expected.shape() != got.shape() ||
      expected.type() != got.type()) {
    return std::string(what) + ": expected " + expected.text() + ", got " + got.text();
  }
  for (std::int64_t i = 0; i < expected.size(); ++i) {
    const bool is_int64 = expected.type() == DataType::kInt64;
    const bool is_same = is_int64 ? expected.get_int(i) == got.get_int(i)
                                  : is_same_number(expected.get(i), got.get(i));
    if (is_same) continue;
    std::ostringstream text;
    text.precision(17);
    text << what << " at " << i << ": expected ";
    if (is_int64) {
      text << expected.get_int(i) << ", got " << got.get_int(i);
    } else {
      text << expected.get(i) << ", got " << got.get(i);
    }
    return text.str();
  }
  return "";
}

}  // namespace robocache::testing
