// The CUDA backend, dense, occupancy and count: zeros everywhere, then a mark at each point's cell.
//
//   zeros_kernel   ####################        writes the grid once, from so few blocks that the
//   mark_kernel       ....------------####     first of these fit beside it: they load points and
//                                              find cells (.), wait for the zeros (-) and mark (#)
//
// Marks set the same bits, or are integer additions: the result does not depend on their order.
#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "voxel/quick_cell.cuh"
#include "voxel/voxel_launch.cuh"

namespace robocache {
namespace cuda {
namespace {

/// The operation on a point's cell.
enum class Mark : std::uint8_t {
  kOr,     // ORs the bits of 1 into zeros, a word of 32 bits at a time
  kStore,  // writes 1: for arrays that are not whole words
  kAdd4,   // counts in int32
  kAdd8,   // counts in int64
};

struct MarkPlan {
  CloudPlan cloud;
  GridPlan grid;
  void* cells;
  std::int32_t width;  // bytes of a cell
  std::uint64_t one;   // the bits of 1
  Mark mark;
  std::int64_t* dropped;
};

// Blocks per SM that write zeros: enough to saturate memory, and few enough that most of the SM is
// left for marks.
constexpr int kZeroBlocksPerSm = 2;
// Blocks per SM that mark: the SM is full, which limits a thread's registers.
constexpr int kMarkBlocksPerSm = 8;

/// Stores 16 bytes of zeros with an L2 hint to keep them: marks follow.
__device__ __forceinline__ void store_zeros(uint4* at) {
#if __CUDA_ARCH__ >= 800
  std::uint64_t policy;
  asm("createpolicy.fractional.L2::evict_last.b64 %0, 1.0;" : "=l"(policy));
  asm volatile("st.global.L2::cache_hint.v4.u32 [%0], {%1, %1, %1, %1}, %2;"
               :
               : "l"(at), "r"(0), "l"(policy)
               : "memory");
#else
  *at = make_uint4(0, 0, 0, 0);
#endif
}

__global__ void __launch_bounds__(kThreads)
    zeros_kernel(char* memory, std::int64_t head, std::int64_t vectors, std::int64_t bytes,
                 std::int64_t* dropped, std::int64_t batch) {
  wait_for_stream();
#if __CUDA_ARCH__ >= 900
  cudaTriggerProgrammaticLaunchCompletion();  // after the wait: marks read points at once
#endif
  const std::int64_t threads = std::int64_t{gridDim.x} * kThreads;
  uint4* const aligned = reinterpret_cast<uint4*>(memory + head);
  for (std::int64_t i = thread_index(); i < vectors; i += threads) {
    store_zeros(aligned + i);
  }
  for (std::int64_t i = thread_index(); i < head; i += threads) memory[i] = 0;
  for (std::int64_t i = head + vectors * 16 + thread_index(); i < bytes; i += threads) {
    memory[i] = 0;
  }
  if (dropped == nullptr) return;
  for (std::int64_t b = thread_index(); b < batch; b += threads) dropped[b] = 0;
}

/// An atomic OR is faster than a store of part of a sector, as measured on an H200.
__device__ __forceinline__ void mark_cell(const MarkPlan& plan, std::int64_t cell) {
  switch (plan.mark) {
    case Mark::kOr: {
      const bool is_double = plan.width == 8;  // the bits of 1.0 are all in the upper half
      const std::int64_t byte = cell * plan.width + (is_double ? 4 : 0);
      const auto word = static_cast<unsigned>(is_double ? plan.one >> 32 : plan.one);
      atomicOr(static_cast<unsigned*>(plan.cells) + byte / 4, word << (byte % 4 * 8));
      return;
    }
    case Mark::kStore:
      if (plan.width == 1) {
        static_cast<std::uint8_t*>(plan.cells)[cell] = static_cast<std::uint8_t>(plan.one);
      } else {
        static_cast<std::uint16_t*>(plan.cells)[cell] = static_cast<std::uint16_t>(plan.one);
      }
      return;
    case Mark::kAdd4:
      atomicAdd(static_cast<unsigned*>(plan.cells) + cell, 1u);
      return;
    case Mark::kAdd8:
      atomicAdd(static_cast<unsigned long long*>(plan.cells) + cell, 1ull);
      return;
  }
}

/// One thread marks one point, the last points first: their zeros are written last, and are still
/// in L2. `kPacked`: the points are float32 and contiguous.
template <bool kPacked>
__global__ void __launch_bounds__(kThreads, kMarkBlocksPerSm)
    mark_kernel(const __grid_constant__ MarkPlan plan, const __grid_constant__ QuickGrid quick) {
  const CloudPlan& cloud = plan.cloud;
  const std::int64_t i = cloud.count - 1 - thread_index();
  std::int64_t cell = -1;
  std::int64_t b = -1;
  if (i >= 0) {
    if (kPacked) {
      const float* const p = static_cast<const float*>(cloud.points.data) + 3 * i;
      cell = dense_cell(plan.grid, quick, __ldcs(p), __ldcs(p + 1), __ldcs(p + 2));
    } else {
      cell = dense_cell(plan.grid, load_any_point(cloud.points, i));
    }
    b = cloud.cloud_of(i);
  }
  wait_for_stream();
  if (cell >= 0 && b >= 0) mark_cell(plan, b * plan.grid.cells + cell);
  count_dropped(plan.dropped, cell < 0, b);
}

template <typename Out>
__global__ void __launch_bounds__(kThreads)
    convert_kernel(const std::int32_t* counts, Out* out, std::int64_t cells) {
  wait_for_stream();
  const std::int64_t i = thread_index();
  if (i < cells) out[i] = static_cast<Out>(counts[i]);
}

int attribute(cudaDeviceAttr which) {
  int device = 0;
  int value = 0;
  check_cuda(cudaGetDevice(&device), "voxelization");
  check_cuda(cudaDeviceGetAttribute(&value, which, device), "voxelization");
  return value;
}

void launch_marks(const MarkPlan& plan, cudaStream_t stream) {
  if (plan.cloud.count == 0) return;
  const RowPlan& rows = plan.cloud.points;
  const bool is_packed = rows.type == DataType::kFloat32 && rows.column_stride == 1 &&
                         rows.row_stride == 3 && rows.per_batch >= plan.cloud.count;
  launch("voxelization, marking cells", is_packed ? mark_kernel<true> : mark_kernel<false>,
         blocks_for(plan.cloud.count), stream, plan, QuickGrid(plan.grid));
}

void occupy_or_count(const DensePlan& plan, void* workspace, cudaStream_t stream) {
  const std::int64_t cells = plan.cloud.batch * plan.grid.cells;
  const bool is_elsewhere = counts_elsewhere(plan);
  const DataType type = is_elsewhere ? DataType::kInt32 : plan.features.out_type;
  const std::int64_t bytes = cells * size_of(type);
  MarkPlan marks{plan.cloud,
                 plan.grid,
                 is_elsewhere ? workspace : plan.out,
                 static_cast<std::int32_t>(size_of(type)),
                 bits_of_one(type),
                 Mark::kAdd4,
                 plan.dropped};
  if (plan.features.mode == VoxelMode::kOccupancy) {
    const bool is_words = reinterpret_cast<std::uintptr_t>(marks.cells) % 4 == 0 && bytes % 4 == 0;
    marks.mark = is_words ? Mark::kOr : Mark::kStore;
  } else if (type == DataType::kInt64) {
    marks.mark = Mark::kAdd8;
  }
  fill_with_zeros(marks.cells, bytes, plan.dropped, plan.cloud.batch, stream);
  launch_marks(marks, stream);
  if (!is_elsewhere) return;
  const auto* const counts = static_cast<const std::int32_t*>(workspace);
  if (plan.features.out_type == DataType::kFloat32) {
    launch("voxelization, writing counts", convert_kernel<float>, blocks_for(cells), stream, counts,
           static_cast<float*>(plan.out), cells);
  } else {
    launch("voxelization, writing counts", convert_kernel<double>, blocks_for(cells), stream,
           counts, static_cast<double*>(plan.out), cells);
  }
}

}  // namespace

void fill_with_zeros(void* memory, std::int64_t bytes, std::int64_t* dropped, std::int64_t batch,
                     cudaStream_t stream) {
  const auto address = reinterpret_cast<std::uintptr_t>(memory);
  const std::int64_t head = std::min<std::int64_t>(bytes, (16 - address % 16) % 16);
  const std::int64_t vectors = (bytes - head) / 16;
  const std::int64_t most =
      std::int64_t{kZeroBlocksPerSm} * attribute(cudaDevAttrMultiProcessorCount);
  const std::int64_t work = std::max<std::int64_t>({1, vectors, dropped == nullptr ? 0 : batch});
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(most, blocks_for(work)));
  launch("voxelization, clearing the grid", zeros_kernel, blocks, stream,
         static_cast<char*>(memory), head, vectors, bytes, dropped, batch);
}

void count_points(const CloudPlan& cloud, const GridPlan& grid, std::int32_t* counts,
                  cudaStream_t stream) {
  launch_marks({cloud, grid, counts, 4, 1, Mark::kAdd4, nullptr}, stream);
}

}  // namespace cuda

void voxelize_on_cuda(const DensePlan& plan, void* workspace, CUstream_st* stream) {
  if (plan.features.mode >= VoxelMode::kMean) {
    cuda::reduce(plan, workspace, stream);
  } else {
    cuda::occupy_or_count(plan, workspace, stream);
  }
}

std::size_t voxelize_workspace_bytes_on_cuda(const DensePlan& plan) {
  if (plan.features.mode >= VoxelMode::kMean) return cuda::reduce_workspace_bytes(plan);
  return counts_elsewhere(plan)
             ? static_cast<std::size_t>(plan.cloud.batch * plan.grid.cells) * sizeof(std::int32_t)
             : 0;
}

}  // namespace robocache
