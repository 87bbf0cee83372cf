#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <tuple>
#include <vector>

#include "support/numbers.h"
#include "voxel/problem.h"

namespace robocache::testing {
namespace {

/// (cloud, x, y, z)
using Cell = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

std::int64_t cloud_of(const VoxelProblem& problem, std::int64_t point) {
  if (!problem.offsets.present()) {
    return problem.is_batched() ? point / problem.points.shape()[1] : 0;
  }
  std::int64_t b = 0;
  const auto offset = [&](std::int64_t index) {
    return problem.offsets.type() == DataType::kInt64
               ? problem.offsets.get_int(index)
               : static_cast<std::int64_t>(problem.offsets.get(index));
  };
  while (offset(b + 1) <= point) ++b;
  return b;
}

/// The points of each cell in ascending order; how many are dropped of each cloud.
struct Cells {
  std::map<Cell, std::vector<std::int64_t>> points;
  std::vector<std::int64_t> dropped;
};

Cells find_cells(const VoxelProblem& problem, bool is_sparse) {
  Cells cells;
  cells.dropped.resize(static_cast<std::size_t>(problem.batch()));
  for (std::int64_t i = 0; i < problem.count(); ++i) {
    const std::int64_t b = cloud_of(problem, i);
    std::int64_t cell[3] = {};
    bool is_dropped = false;
    for (int axis = 0; axis < 3; ++axis) {
      const double x = problem.points.get(3 * i + axis);
      const VoxelGeometry& geometry = problem.grid.geometry;
      const double at = std::floor((x - geometry.origin[axis]) / geometry.voxel_size[axis]);
      if (!std::isfinite(x)) {
        is_dropped = true;
      } else if (!is_sparse && !(at >= 0 && at < static_cast<double>(problem.grid.shape[axis]))) {
        is_dropped = true;
      } else {
        cell[axis] = static_cast<std::int64_t>(at);
      }
    }
    if (is_dropped) {
      ++cells.dropped[static_cast<std::size_t>(b)];
    } else {
      cells.points[{b, cell[0], cell[1], cell[2]}].push_back(i);
    }
  }
  return cells;
}

bool wins(VoxelMode mode, double x, double best) {
  if (std::isnan(best)) return false;
  return std::isnan(x) || (mode == VoxelMode::kMax ? x > best : x < best);
}

/// Which of the points wins a channel.
std::int64_t winner(const VoxelProblem& problem, const std::vector<std::int64_t>& points,
                    std::int64_t channel) {
  const auto feature = [&](std::int64_t point) {
    return problem.features.get(point * problem.channels() + channel);
  };
  std::int64_t best = points.front();
  for (const std::int64_t point : points) {
    if (wins(problem.mode, feature(point), feature(best))) best = point;
  }
  return best;
}

template <typename Compute>
double reduce(const VoxelProblem& problem, const std::vector<std::int64_t>& points,
              std::int64_t channel) {
  const std::int64_t channels = problem.channels();
  if (problem.mode == VoxelMode::kMax || problem.mode == VoxelMode::kMin) {
    return problem.features.get(winner(problem, points, channel) * channels + channel);
  }
  Compute sum = 0;
  for (const std::int64_t point : points) {
    sum += static_cast<Compute>(problem.features.get(point * channels + channel));
  }
  if (problem.mode == VoxelMode::kMean) sum /= static_cast<Compute>(points.size());
  return static_cast<double>(sum);
}

double reduce(const VoxelProblem& problem, DataType out_type,
              const std::vector<std::int64_t>& points, std::int64_t channel) {
  const bool in_double =
      problem.features.type() == DataType::kFloat64 || out_type == DataType::kFloat64;
  return in_double ? reduce<double>(problem, points, channel)
                   : reduce<float>(problem, points, channel);
}

std::int64_t grid_index(const VoxelProblem& problem, const Cell& cell, std::int64_t channel) {
  const auto& [b, x, y, z] = cell;
  const std::int64_t* const shape = problem.grid.shape;
  const std::int64_t channels = problem.mode >= VoxelMode::kMean ? problem.channels() : 1;
  return (((b * channels + channel) * shape[0] + x) * shape[1] + y) * shape[2] + z;
}

void set_dropped(const Cells& cells, Tensor& dropped) {
  for (std::size_t b = 0; b < cells.dropped.size(); ++b) {
    dropped.set_int(static_cast<std::int64_t>(b), cells.dropped[b]);
  }
}

}  // namespace

DenseResult reference_dense(const VoxelProblem& problem) {
  DenseResult result{problem.make_grid(), problem.make_dropped()};
  const Cells cells = find_cells(problem, false);
  set_dropped(cells, result.dropped);
  for (const auto& [cell, points] : cells.points) {
    if (problem.mode == VoxelMode::kOccupancy) {
      result.grid.set(grid_index(problem, cell, 0), 1);
    } else if (problem.mode == VoxelMode::kCount) {
      result.grid.set(grid_index(problem, cell, 0), static_cast<double>(points.size()));
    } else {
      for (std::int64_t c = 0; c < problem.channels(); ++c) {
        result.grid.set(grid_index(problem, cell, c), reduce(problem, problem.out_type, points, c));
      }
    }
  }
  return result;
}

SparseResult reference_sparse(const VoxelProblem& problem) {
  const Cells cells = find_cells(problem, true);
  const auto voxels = static_cast<std::int64_t>(cells.points.size());
  SparseResult result;
  result.voxels = voxels;
  result.coordinates = Tensor(DataType::kInt32, {voxels, 3});
  result.counts = Tensor(DataType::kInt32, {voxels});
  if (problem.features.present()) {
    result.features = Tensor(problem.out_type, {voxels, problem.channels()});
  }
  result.point_to_voxel = problem.make_point_to_voxel();
  result.offsets = Tensor(DataType::kInt64, {problem.batch() + 1});
  result.dropped = problem.make_dropped();
  set_dropped(cells, result.dropped);
  for (std::int64_t i = 0; i < problem.count(); ++i) result.point_to_voxel.set_int(i, -1);
  std::int64_t voxel = 0;
  for (const auto& [cell, points] : cells.points) {
    const auto& [b, x, y, z] = cell;
    result.coordinates.set(3 * voxel, static_cast<double>(x));
    result.coordinates.set(3 * voxel + 1, static_cast<double>(y));
    result.coordinates.set(3 * voxel + 2, static_cast<double>(z));
    result.counts.set(voxel, static_cast<double>(points.size()));
    for (const std::int64_t point : points) result.point_to_voxel.set_int(point, voxel);
    if (problem.features.present()) {
      for (std::int64_t c = 0; c < problem.channels(); ++c) {
        result.features.set(voxel * problem.channels() + c,
                            reduce(problem, problem.out_type, points, c));
      }
    }
    ++voxel;
    for (std::int64_t later = b + 1; later <= problem.batch(); ++later) {
      result.offsets.set_int(later, voxel);
    }
  }
  return result;
}

Tensor reference_gradient(const VoxelProblem& problem, const Tensor& grad_output,
                          const SparseResult* sparse) {
  Tensor gradient(problem.features.type(), problem.features.shape());
  const bool in_double =
      problem.features.type() == DataType::kFloat64 || grad_output.type() == DataType::kFloat64;
  const std::int64_t channels = problem.channels();
  std::int64_t voxel = 0;
  for (const auto& [cell, points] : find_cells(problem, sparse != nullptr).points) {
    for (std::int64_t c = 0; c < channels; ++c) {
      const double grad =
          grad_output.get(sparse != nullptr ? voxel * channels + c : grid_index(problem, cell, c));
      if (problem.mode == VoxelMode::kMax || problem.mode == VoxelMode::kMin) {
        gradient.set(winner(problem, points, c) * channels + c, grad);
        continue;
      }
      double share = grad;
      if (problem.mode == VoxelMode::kMean) {
        share = in_double ? grad / static_cast<double>(points.size())
                          : static_cast<float>(grad) / static_cast<float>(points.size());
      }
      for (const std::int64_t point : points) gradient.set(point * channels + c, share);
    }
    ++voxel;
  }
  return gradient;
}

}  // namespace robocache::testing
