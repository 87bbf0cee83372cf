// Sorts points by key on CUDA, stably, with CUB: its radix sort over the bits that the keys have,
// or, for few points with many bits, its merge sort.
#include <cub/device/device_merge_sort.cuh>
#include <cub/device/device_radix_sort.cuh>

#include "voxel/voxel_launch.cuh"

namespace robocache::cuda {
namespace {

// The range in which a merge sort is faster than a radix sort, as measured on an H200: a radix sort
// takes one more pass for every 8 bits, a merge sort one more for every doubling of the points.
constexpr int kLeastBitsToMerge = 49;
constexpr std::int64_t kMostPointsToMerge = std::int64_t{1} << 19;

struct IsLess {
  __device__ bool operator()(std::uint64_t a, std::uint64_t b) const { return a < b; }
};

template <typename Key>
cudaError_t sort_pairs(void* storage, std::size_t& bytes, const SortedByKey& sorted,
                       cudaStream_t stream) {
  return cub::DeviceRadixSort::SortPairs(
      storage, bytes, static_cast<const Key*>(sorted.keys), static_cast<Key*>(sorted.sorted_keys),
      static_cast<const std::uint32_t*>(sorted.points), sorted.sorted_points,
      static_cast<int>(sorted.count), 0, bits_of(sorted.limit), stream);
}

cudaError_t sort_any(void* storage, std::size_t& bytes, const SortedByKey& sorted,
                     cudaStream_t stream) {
  if (sorted.is_merged) {
    return cub::DeviceMergeSort::StableSortPairs(
        storage, bytes, static_cast<std::uint64_t*>(sorted.keys), sorted.points,
        static_cast<int>(sorted.count), IsLess{}, stream);
  }
  return sorted.is_wide ? sort_pairs<std::uint64_t>(storage, bytes, sorted, stream)
                        : sort_pairs<std::uint32_t>(storage, bytes, sorted, stream);
}

}  // namespace

SortedByKey::SortedByKey(std::int64_t count, std::uint64_t limit, WorkspaceCutter& cutter)
    : count(count),
      is_wide(bits_of(limit) > 32),
      is_merged(bits_of(limit) >= kLeastBitsToMerge && count <= kMostPointsToMerge),
      limit(limit) {
  const std::int64_t key_bytes = count * (is_wide ? 8 : 4);
  keys = cutter.cut<char>(key_bytes);
  points = cutter.cut<std::uint32_t>(count);
  sorted_keys = is_merged ? keys : cutter.cut<char>(key_bytes);
  sorted_points = is_merged ? points : cutter.cut<std::uint32_t>(count);
  storage_bytes = 0;
  check_cuda(sort_any(nullptr, storage_bytes, *this, nullptr),
             "voxelization, workspace of the sort");
  storage = cutter.cut<char>(static_cast<std::int64_t>(storage_bytes));
}

void SortedByKey::sort(cudaStream_t stream) const {
  if (count == 0) return;
  std::size_t bytes = storage_bytes;
  check_cuda(sort_any(storage, bytes, *this, stream), "voxelization, sorting points");
}

}  // namespace robocache::cuda
