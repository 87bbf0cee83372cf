// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; see core/target.h for what that asks of the code.
#include "voxel/voxelize_cpu_kernels.h"

#include "core/dispatch.h"
#include "core/number.h"
#include "voxel/cell.h"
#include "voxel/gradient.h"
#include "voxel/reduce.h"

namespace robocache::ROBOCACHE_TARGET {
namespace {

template <bool kFlag>
struct Flag {
  static constexpr bool kValue = kFlag;
};

/// Calls `use(i, point)` for the points [begin, end).
template <typename Use>
inline void for_each_point(const CloudPlan& cloud, std::int64_t begin, std::int64_t end,
                           const Use& use) {
  with_floating_type(cloud.points.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const RowPlan& rows = cloud.points;
    while (begin < end) {
      // As many as lie one stride apart, so that the loop over them has no division in it.
      std::int64_t stop = end;
      if (end > rows.per_batch) {
        const std::int64_t next = (begin / rows.per_batch + 1) * rows.per_batch;
        stop = next < end ? next : end;
      }
      const std::int64_t start = rows.start(begin);
      for (std::int64_t i = begin; i < stop; ++i) {
        use(i, load_point<T>(rows, start + (i - begin) * rows.row_stride));
      }
      begin = stop;
    }
  });
}

void dense_cells(const CloudPlan& cloud, const GridPlan& grid, std::int64_t begin, std::int64_t end,
                 std::int64_t* cells) {
  for_each_point(cloud, begin, end, [&](std::int64_t i, const Point& point) {
    cells[i - begin] = dense_cell(grid, point);
  });
}

std::int64_t sparse_bounds(const CloudPlan& cloud, const VoxelGeometry& geometry,
                           std::int64_t begin, std::int64_t end, SparseBounds& bounds) {
  std::int64_t dropped = 0;
  for_each_point(cloud, begin, end, [&](std::int64_t i, const Point& point) {
    const SparseCell cell = sparse_cell(geometry, point);
    if (cell.kind == SparsePoint::kInVoxel) {
      for (int axis = 0; axis < 3; ++axis) {
        const std::int64_t x = cell.x[axis];
        bounds.lowest[axis] = x < bounds.lowest[axis] ? x : bounds.lowest[axis];
        bounds.highest[axis] = x > bounds.highest[axis] ? x : bounds.highest[axis];
      }
    } else if (cell.kind == SparsePoint::kDropped) {
      ++dropped;
    } else if (i < bounds.first_beyond) {
      bounds.first_beyond = i;
    }
  });
  return dropped;
}

void sparse_keys(const CloudPlan& cloud, const VoxelGeometry& geometry, const SparseBox& box,
                 std::int64_t b, std::int64_t begin, std::int64_t end, KeyedPoint* keyed) {
  for_each_point(cloud, begin, end, [&](std::int64_t i, const Point& point) {
    const SparseCell cell = sparse_cell(geometry, point);
    keyed[i - begin] = {cell.kind == SparsePoint::kInVoxel ? box.key(b, cell.x) : box.limit, i};
  });
}

// Sorted points lie anywhere in memory: each is asked for while others before it are worked on.
constexpr std::int64_t kPointsAhead = 16;

template <typename T>
inline void ask_for(const RowPlan& rows, const SortedPoints& sorted, std::int64_t i) {
  const std::int64_t ahead = i + kPointsAhead < sorted.count ? i + kPointsAhead : i;
  __builtin_prefetch(static_cast<const T*>(rows.data) + rows.start(sorted.points[ahead].point));
}

void coordinates(const CloudPlan& cloud, const VoxelGeometry& geometry, const SortedPoints& sorted,
                 std::int64_t begin, std::int64_t end, std::int32_t* coordinates) {
  const RowPlan& rows = cloud.points;
  with_floating_type(rows.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (std::int64_t voxel = begin; voxel < end; ++voxel) {
      const std::int64_t first = sorted.starts[voxel];
      ask_for<T>(rows, sorted, first);
      const SparseCell cell =
          sparse_cell(geometry, load_point<T>(rows, rows.start(sorted.points[first].point)));
      for (int axis = 0; axis < 3; ++axis) coordinates[3 * voxel + axis] = cell.x[axis];
    }
  });
}

// Channels reduced at once, in registers and the nearest cache.
constexpr int kChannelsAtOnce = 16;

/// `width` channels from `channel` on, of at most kWidth.
template <typename Value, typename Compute, int kWidth>
inline void reduce_channels(const FeaturePlan& features, const SortedPoints& sorted,
                            std::int64_t begin, std::int64_t end, const FeatureOutput& out,
                            std::int64_t channel, int width) {
  const RowPlan& rows = features.rows;
  const VoxelMode mode = features.mode;
  const Value* const data = static_cast<const Value*>(rows.data) + channel * rows.column_stride;
  const auto reduce_as = [&](auto adds) {
    for (std::int64_t voxel = begin; voxel < end; ++voxel) {
      const std::int64_t first = sorted.starts[voxel];
      const std::int64_t last = sorted.starts[voxel + 1];
      Reduction<Compute> reduced[kWidth];
      for (std::int64_t i = first; i < last; ++i) {
        ask_for<Value>(rows, sorted, i);
        const Value* const row = data + rows.start(sorted.points[i].point);
        for (int c = 0; c < width; ++c) {
          const auto x = static_cast<Compute>(widen(row[c * rows.column_stride]));
          reduced[c].add(decltype(adds)::kValue ? VoxelMode::kSum : mode, i == first, x);
        }
      }
      const std::int64_t start = out.start(voxel, sorted.points[first].key);
      for (int c = 0; c < width; ++c) {
        store_as<Compute>(features.out_type, out.data, start + (channel + c) * out.channel_stride(),
                          reduced[c].result(mode, last - first));
      }
    }
  };
  if (picks_one(mode)) {
    reduce_as(Flag<false>{});
  } else {
    reduce_as(Flag<true>{});
  }
}

template <typename Value, typename Compute>
inline void reduce_voxels(const FeaturePlan& features, const SortedPoints& sorted,
                          std::int64_t begin, std::int64_t end, const FeatureOutput& out) {
  for (std::int64_t channel = 0; channel < features.channels; channel += kChannelsAtOnce) {
    const std::int64_t rest = features.channels - channel;
    const int width = rest < kChannelsAtOnce ? static_cast<int>(rest) : kChannelsAtOnce;
    if (width <= 4) {
      reduce_channels<Value, Compute, 4>(features, sorted, begin, end, out, channel, width);
    } else {
      reduce_channels<Value, Compute, kChannelsAtOnce>(features, sorted, begin, end, out, channel,
                                                       width);
    }
  }
}

void reduce(const FeaturePlan& features, const SortedPoints& sorted, std::int64_t begin,
            std::int64_t end, const FeatureOutput& out) {
  with_value_type(features.rows.type, [&](auto tag) {
    using Value = typename decltype(tag)::type;
    if (computes_in_double(features)) {
      reduce_voxels<Value, double>(features, sorted, begin, end, out);
    } else {
      reduce_voxels<Value, float>(features, sorted, begin, end, out);
    }
  });
}

template <typename Compute>
void scatter_voxels(const GradientPlan& plan, const SortedPoints& sorted, std::int64_t begin,
                    std::int64_t end) {
  for (std::int64_t voxel = begin; voxel < end; ++voxel) {
    const std::int64_t first = sorted.starts[voxel];
    const auto cell = static_cast<std::int64_t>(sorted.points[first].key);
    for (std::int64_t c = 0; c < plan.features.channels; ++c) {
      scatter_gradient_to_winner<Compute>(plan, cell, c, first, sorted.starts[voxel + 1],
                                          [&](std::int64_t i) { return sorted.points[i].point; });
    }
  }
}

void scatter_to_winners(const GradientPlan& plan, const SortedPoints& sorted, std::int64_t begin,
                        std::int64_t end) {
  if (computes_in_double(plan.features)) {
    scatter_voxels<double>(plan, sorted, begin, end);
  } else {
    scatter_voxels<float>(plan, sorted, begin, end);
  }
}

template <typename Compute>
void gather_points(const GradientPlan& plan, const std::int64_t* voxels, const std::int32_t* counts,
                   std::int64_t begin, std::int64_t end) {
  for (std::int64_t i = begin; i < end; ++i) {
    for (std::int64_t c = 0; c < plan.features.channels; ++c) {
      gather_gradient<Compute>(plan, i, c, voxels[i], counts);
    }
  }
}

void gather(const GradientPlan& plan, const std::int64_t* voxels, const std::int32_t* counts,
            std::int64_t begin, std::int64_t end) {
  if (computes_in_double(plan.features)) {
    gather_points<double>(plan, voxels, counts, begin, end);
  } else {
    gather_points<float>(plan, voxels, counts, begin, end);
  }
}

}  // namespace

const VoxelCpuKernels& voxel_cpu_kernels() {
  static constexpr VoxelCpuKernels kKernels{
      dense_cells, sparse_bounds, sparse_keys, coordinates, reduce, scatter_to_winners, gather};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
