// The CPU kernels. The build compiles this file once per instruction set, each time into the
// namespace that ROBOCACHE_CPU_TARGET names; core/target.h lists the restrictions on such code.
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

constexpr int kPointsAtOnce = 256;

/// A batch of points, axis by axis, so that loops over them vectorize.
struct Points {
  double x[3][kPointsAtOnce];

  Point operator[](int i) const { return {{x[0][i], x[1][i], x[2][i]}}; }
};

/// Loads `count` points from `begin` on, which are one stride apart.
void load_points(const RowPlan& rows, std::int64_t begin, int count, Points& points) {
  with_floating_type(rows.type, [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const p = static_cast<const T*>(rows.data) + rows.start(begin);
    const auto load = [&](std::int64_t row_stride, std::int64_t column_stride) {
      for (int i = 0; i < count; ++i) {
        for (int axis = 0; axis < 3; ++axis) {
          points.x[axis][i] = static_cast<double>(widen(p[i * row_stride + axis * column_stride]));
        }
      }
    };
    if (rows.row_stride == 3 && rows.column_stride == 1) {
      load(3, 1);
    } else {
      load(rows.row_stride, rows.column_stride);
    }
  });
}

/// Calls `use(i, count, points)` for batches of the points [begin, end): `count` points from i on.
template <typename Use>
inline void for_each_batch(const CloudPlan& cloud, std::int64_t begin, std::int64_t end,
                           const Use& use) {
  const RowPlan& rows = cloud.points;
  Points points;
  while (begin < end) {
    std::int64_t stop = end - begin > kPointsAtOnce ? begin + kPointsAtOnce : end;
    if (stop > rows.per_batch) {
      const std::int64_t next = (begin / rows.per_batch + 1) * rows.per_batch;
      stop = next < stop ? next : stop;
    }
    const int count = static_cast<int>(stop - begin);
    load_points(rows, begin, count, points);
    use(begin, count, points);
    begin = stop;
  }
}

template <typename Index>
void find_dense_cells(const CloudPlan& cloud, const GridPlan& grid, std::int64_t begin,
                      std::int64_t end, std::int64_t* cells) {
  const GridPlan own = grid;  // a copy, which no store can change
  for_each_batch(cloud, begin, end, [&](std::int64_t first, int count, const Points& points) {
    Index index[3][kPointsAtOnce];
    for (int axis = 0; axis < 3; ++axis) {
      for (int i = 0; i < count; ++i) {
        index[axis][i] = dense_index<Index>(own, axis, points.x[axis][i]);
      }
    }
    std::int64_t* const to = cells + (first - begin);
    for (int i = 0; i < count; ++i) {
      to[i] = dense_cell(own, index[0][i], index[1][i], index[2][i]);
    }
  });
}

void dense_cells(const CloudPlan& cloud, const GridPlan& grid, std::int64_t begin, std::int64_t end,
                 std::int64_t* cells) {
  // Every instruction set has a conversion to 32 bits.
  if (((grid.shape[0] | grid.shape[1] | grid.shape[2]) >> 31) == 0) {
    find_dense_cells<std::int32_t>(cloud, grid, begin, end, cells);
  } else {
    find_dense_cells<std::int64_t>(cloud, grid, begin, end, cells);
  }
}

/// The cells of a batch of points, axis by axis.
struct SparseCells {
  std::int32_t x[3][kPointsAtOnce];
  std::int32_t problems[kPointsAtOnce];  // the bits of SparseIndex, of any axis

  void find(const VoxelGeometry& geometry, int count, const Points& points) {
    for (int i = 0; i < count; ++i) problems[i] = 0;
    for (int axis = 0; axis < 3; ++axis) {
      for (int i = 0; i < count; ++i) {
        const SparseIndex index = sparse_index(geometry, axis, points.x[axis][i]);
        x[axis][i] = index.x;
        problems[i] |= index.problems;
      }
    }
  }

  /// Replaces the cells of points in no voxel by the cell of another point, if one is in a voxel.
  /// Returns the number of dropped points; lowers `first_beyond` to the first point whose cell
  /// exceeds int32. `first` is the index of the first point.
  std::int64_t replace_outside(std::int64_t first, int count, std::int64_t& first_beyond) {
    std::int64_t dropped = 0;
    int inside = 0;
    while (inside + 1 < count && problems[inside] != 0) ++inside;
    for (int i = 0; i < count; ++i) {
      if (problems[i] == 0) continue;
      if ((problems[i] & SparseIndex::kNotFinite) != 0) {
        ++dropped;
      } else if (first + i < first_beyond) {
        first_beyond = first + i;
      }
      for (int axis = 0; axis < 3; ++axis) x[axis][i] = x[axis][inside];
    }
    return dropped;
  }
};

std::int64_t sparse_bounds(const CloudPlan& cloud, const VoxelGeometry& geometry,
                           std::int64_t begin, std::int64_t end, SparseBounds& bounds) {
  const VoxelGeometry own = geometry;  // a copy, which no store can change
  std::int64_t dropped = 0;
  for_each_batch(cloud, begin, end, [&](std::int64_t first, int count, const Points& points) {
    SparseCells cells;
    cells.find(own, count, points);
    int outside = 0;
    for (int i = 0; i < count; ++i) outside += int(cells.problems[i] != 0);
    if (outside > 0) {
      dropped += cells.replace_outside(first, count, bounds.first_beyond);
      if (outside == count) return;
    }
    for (int axis = 0; axis < 3; ++axis) {
      const std::int32_t* const x = cells.x[axis];
      std::int32_t lowest = x[0];
      std::int32_t highest = x[0];
      for (int i = 0; i < count; ++i) {
        lowest = x[i] < lowest ? x[i] : lowest;
        highest = x[i] > highest ? x[i] : highest;
      }
      bounds.lowest[axis] = lowest < bounds.lowest[axis] ? lowest : bounds.lowest[axis];
      bounds.highest[axis] = highest > bounds.highest[axis] ? highest : bounds.highest[axis];
    }
  });
  return dropped;
}

void sparse_keys(const CloudPlan& cloud, const VoxelGeometry& geometry, const SparseBox& box,
                 std::int64_t b, std::int64_t begin, std::int64_t end, std::uint64_t* keys) {
  const VoxelGeometry own = geometry;  // a copy, which no store can change
  for_each_batch(cloud, begin, end, [&](std::int64_t first, int count, const Points& points) {
    SparseCells cells;
    cells.find(own, count, points);
    std::uint64_t* const to = keys + (first - begin);
    const SparseBox own_box = box;
    const std::int64_t own_b = b;
    for (int i = 0; i < count; ++i) {
      const std::uint64_t key = own_box.key(own_b, cells.x[0][i], cells.x[1][i], cells.x[2][i]);
      to[i] = cells.problems[i] == 0 ? key : own_box.limit;
    }
  });
}

// Prefetch distance in points: the points of a voxel are scattered in memory, so each is prefetched
// while earlier points are processed.
constexpr std::int64_t kPointsAhead = 16;

// Channels reduced together, in registers and the L1 cache.
constexpr int kChannelsAtOnce = 16;

/// Adds `width` channels of a row. If kIsWhole, these are kWidth contiguous channels.
template <bool kIsWhole, bool kAdds, int kWidth, typename Value, typename Compute>
inline void add_row(Reduction<Compute>* reduced, const Value* row, std::int64_t stride, int width,
                    VoxelMode mode, bool is_first) {
  const VoxelMode reduce_mode = kAdds ? VoxelMode::kSum : mode;
  if (kIsWhole) {
    for (int c = 0; c < kWidth; ++c) {
      reduced[c].add(reduce_mode, is_first, static_cast<Compute>(widen(row[c])));
    }
  } else {
    for (int c = 0; c < width; ++c) {
      reduced[c].add(reduce_mode, is_first, static_cast<Compute>(widen(row[c * stride])));
    }
  }
}

/// Calls `body` with two flags: whether rows of `width` channels are whole, and whether they are
/// added.
template <int kWidth, typename Body>
inline void with_row_kind(const FeaturePlan& features, int width, const Body& body) {
  const bool is_whole = width == kWidth && features.rows.column_stride == 1;
  if (picks_one(features.mode)) {
    is_whole ? body(Flag<true>{}, Flag<false>{}) : body(Flag<false>{}, Flag<false>{});
  } else {
    is_whole ? body(Flag<true>{}, Flag<true>{}) : body(Flag<false>{}, Flag<true>{});
  }
}

/// Reduces `width` channels from `channel` on, at most kWidth.
template <typename Value, typename Compute, int kWidth>
inline void reduce_channels(const FeaturePlan& features, const SortedPoints& sorted,
                            std::int64_t begin, std::int64_t end, const FeatureOutput& out,
                            std::int64_t channel, int width) {
  const RowPlan rows = features.rows;
  const VoxelMode mode = features.mode;
  const Value* const data = static_cast<const Value*>(rows.data) + channel * rows.column_stride;
  with_row_kind<kWidth>(features, width, [&](auto is_whole, auto adds) {
    for (std::int64_t voxel = begin; voxel < end; ++voxel) {
      const std::int64_t first = sorted.starts[voxel];
      const std::int64_t last = sorted.starts[voxel + 1];
      Reduction<Compute> reduced[kWidth];
      for (std::int64_t i = first; i < last; ++i) {
        const std::int64_t ahead = i + kPointsAhead < sorted.count ? i + kPointsAhead : i;
        __builtin_prefetch(data + rows.start(sorted.points[ahead]));
        add_row<decltype(is_whole)::kValue, decltype(adds)::kValue, kWidth>(
            reduced, data + rows.start(sorted.points[i]), rows.column_stride, width, mode,
            i == first);
      }
      const std::int64_t start = out.start(voxel, sorted.keys[voxel]);
      for (int c = 0; c < width; ++c) {
        store_as<Compute>(features.out_type, out.data, start + (channel + c) * out.channel_stride(),
                          reduced[c].result(mode, last - first));
      }
    }
  });
}

/// Calls `body` with the value type and the compute type of a reduction.
template <typename Body>
inline void with_types(const FeaturePlan& features, const Body& body) {
  with_value_type(features.rows.type, [&](auto value) {
    if (computes_in_double(features)) {
      body(value, Type<double>{});
    } else {
      body(value, Type<float>{});
    }
  });
}

void reduce(const FeaturePlan& features, const SortedPoints& sorted, std::int64_t begin,
            std::int64_t end, const FeatureOutput& out) {
  with_types(features, [&](auto value, auto compute) {
    using Value = typename decltype(value)::type;
    using Compute = typename decltype(compute)::type;
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
  });
}

// Channels of a block's cells reduced together. A cell also counts its points.
constexpr int kBlockChannels = 4;

template <typename Compute>
struct BlockCell {
  Reduction<Compute> channels[kBlockChannels];
  std::int32_t points = 0;
};

/// Zeros `width` channels of the cells [first, end), numbered over all clouds.
void zero_cells(DataType type, const FeatureOutput& out, std::int64_t channel, int width,
                std::int64_t first, std::int64_t end) {
  while (first < end) {
    const std::int64_t cloud_end = (first / out.cells + 1) * out.cells;
    const std::int64_t stop = cloud_end < end ? cloud_end : end;
    const std::int64_t start = out.start(0, static_cast<std::uint64_t>(first));
    for (int c = 0; c < width; ++c) {
      char* const cells =
          static_cast<char*>(out.data) + (start + (channel + c) * out.cells) * size_of(type);
      __builtin_memset(cells, 0, static_cast<std::size_t>((stop - first) * size_of(type)));
    }
    first = stop;
  }
}

/// Adds `width` channels from `channel` on of a block's points to its cells, which are empty.
template <typename Value, typename Compute>
inline void reduce_block(const FeaturePlan& features, const BlockedPoints& blocked,
                         std::int64_t block, std::int64_t channel, int width,
                         BlockCell<Compute>* cells) {
  const RowPlan rows = features.rows;
  const VoxelMode mode = features.mode;
  const Value* const data = static_cast<const Value*>(rows.data) + channel * rows.column_stride;
  const std::int64_t begin = blocked.starts[block];
  const std::int64_t end = blocked.starts[block + 1];
  with_row_kind<kBlockChannels>(features, width, [&](auto is_whole, auto adds) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t ahead = i + kPointsAhead < blocked.count ? i + kPointsAhead : i;
      __builtin_prefetch(data + rows.start(blocked.points[ahead].point));
      BlockCell<Compute>& cell = cells[blocked.points[i].key];
      add_row<decltype(is_whole)::kValue, decltype(adds)::kValue, kBlockChannels>(
          cell.channels, data + rows.start(blocked.points[i].point), rows.column_stride, width,
          mode, cell.points == 0);
      ++cell.points;
    }
  });
}

/// Writes `width` channels from `channel` on, and empties `cells`.
template <typename Out, typename Compute>
inline void write_block(const FeaturePlan& features, const BlockedPoints& blocked,
                        std::int64_t block, const FeatureOutput& out, std::int64_t channel,
                        int width, BlockCell<Compute>* cells) {
  const VoxelMode mode = features.mode;
  const std::int64_t cells_of_cloud = out.cells;
  const std::int64_t first_cell = blocked.first_cell(block);
  if (!blocked.is_zeroed) {
    zero_cells(features.out_type, out, channel, width, first_cell, blocked.end_cell(block));
  }
  const std::int64_t end = blocked.starts[block + 1];
  for (std::int64_t i = blocked.starts[block]; i < end; ++i) {
    BlockCell<Compute>& cell = cells[blocked.points[i].key];
    if (cell.points == 0) continue;  // written already
    const std::int64_t start =
        out.start(0, static_cast<std::uint64_t>(first_cell + blocked.points[i].key));
    Out* const to = static_cast<Out*>(out.data) + start + channel * cells_of_cloud;
    for (int c = 0; c < width; ++c) {
      to[c * cells_of_cloud] = Round<Out>::from(cell.channels[c].result(mode, cell.points));
    }
    cell = {};
  }
}

void reduce_blocks(const FeaturePlan& features, const BlockedPoints& blocked, std::int64_t begin,
                   std::int64_t end, const FeatureOutput& out) {
  with_types(features, [&](auto value, auto compute) {
    using Value = typename decltype(value)::type;
    using Compute = typename decltype(compute)::type;
    BlockCell<Compute> cells[1 << BlockedPoints::kMaxBits];
    for (std::int64_t block = begin; block < end; ++block) {
      for (std::int64_t channel = 0; channel < features.channels; channel += kBlockChannels) {
        const std::int64_t rest = features.channels - channel;
        const int width = rest < kBlockChannels ? static_cast<int>(rest) : kBlockChannels;
        reduce_block<Value>(features, blocked, block, channel, width, cells);
        with_value_type(features.out_type, [&](auto out_tag) {
          using Out = typename decltype(out_tag)::type;
          write_block<Out>(features, blocked, block, out, channel, width, cells);
        });
      }
    }
  });
}

template <typename Compute>
void scatter_voxels(const GradientPlan& plan, const SortedPoints& sorted, std::int64_t begin,
                    std::int64_t end) {
  for (std::int64_t voxel = begin; voxel < end; ++voxel) {
    const std::int64_t first = sorted.starts[voxel];
    const auto cell = static_cast<std::int64_t>(sorted.keys[voxel]);
    for (std::int64_t c = 0; c < plan.features.channels; ++c) {
      scatter_gradient_to_winner<Compute>(plan, cell, c, first, sorted.starts[voxel + 1],
                                          [&](std::int64_t i) { return sorted.points[i]; });
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
  static constexpr VoxelCpuKernels kKernels{dense_cells,   sparse_bounds,      sparse_keys, reduce,
                                            reduce_blocks, scatter_to_winners, gather};
  return kKernels;
}

}  // namespace robocache::ROBOCACHE_TARGET
