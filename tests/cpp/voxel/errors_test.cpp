// Error messages of voxelization. A refused call leaves its outputs untouched.
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "robocache/build_info.h"
#include "robocache/voxel.h"
#include "support/error_of.h"
#include "support/tensor.h"

namespace robocache::testing {
namespace {

/// Dense and sparse calls that are right, of shapes B=2, N=3, C=4, X=2, Y=3 and Z=5; their
/// arguments may be replaced one by one.
struct Call {
  // Memory that is not to be touched, and offsets for [P=6,3].
  Tensor points{DataType::kFloat32, {2, 3, 3}};
  Tensor flat_points{DataType::kFloat32, {6, 3}};
  Tensor features{DataType::kFloat32, {2, 3, 4}};
  Tensor flat_features{DataType::kFloat32, {6, 4}};
  Tensor offsets{DataType::kInt32, {3}, {0, 2, 6}};
  Tensor grid_memory{DataType::kFloat32, {2, 4, 2, 3, 5}};
  Tensor dropped_memory{DataType::kInt64, {2}};
  Tensor grad_memory{DataType::kFloat32, {2, 3, 4}};
  Tensor voxel_memory{DataType::kInt64, {2, 3}};
  Tensor offset_memory{DataType::kInt64, {3}};
  // The arguments of the calls.
  PointCloud cloud{points.view(), features.view(), {}};
  VoxelGrid grid;
  VoxelMode mode = VoxelMode::kMean;
  TensorView grid_out, dropped_out, grad_features, point_to_voxel, offsets_out;
  ConstTensorView grad_output = static_cast<const Tensor&>(grid_memory).view();
  std::vector<std::int64_t> scratch = std::vector<std::int64_t>(10'000);
  Workspace workspace{scratch.data(), 80'000};
  ExecutionContext context = on_cpu();

  Call() {
    grid.shape[0] = 2;
    grid.shape[1] = 3;
    grid.shape[2] = 5;
    for (Tensor* memory :
         {&grid_memory, &dropped_memory, &grad_memory, &voxel_memory, &offset_memory}) {
      memory->fill_bytes(kUntouched);
    }
    grid_out = grid_memory.view();
    dropped_out = dropped_memory.view();
    grad_features = grad_memory.view();
    point_to_voxel = voxel_memory.view();
    offsets_out = offset_memory.view();
  }

  void use_offsets() {
    cloud = {flat_points.view(), flat_features.view(), offsets.view()};
    point_to_voxel = {voxel_memory.view().data, DataType::kInt64, {6}};
  }

  void dense() const { voxelize(cloud, grid, mode, grid_out, dropped_out, workspace, context); }
  void backward() const {
    voxelize_backward(cloud, grid, mode, grad_output, grad_features, workspace, context);
  }
  void sparse() const {
    voxelize_sparse_index(cloud, grid.geometry, point_to_voxel, offsets_out, dropped_out, workspace,
                          context);
  }
  bool is_untouched() const {
    return grid_memory.is_untouched(kUntouched) && dropped_memory.is_untouched(kUntouched) &&
           grad_memory.is_untouched(kUntouched) && voxel_memory.is_untouched(kUntouched) &&
           offset_memory.is_untouched(kUntouched);
  }
};

using Operation = void (Call::*)() const;

void expect_error_of(Operation run, const std::string& expected,
                     const std::function<void(Call&)>& spoil) {
  Call call;
  spoil(call);
  EXPECT_EQ(error_of([&] { (call.*run)(); }), expected);
  EXPECT_TRUE(call.is_untouched()) << expected;
}

void expect_dense_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  expect_error_of(&Call::dense, expected, spoil);
}

/// Expects an error of each operation: dense voxelization, its gradient, and sparse voxelization.
void expect_error(const std::string& expected, const std::function<void(Call&)>& spoil) {
  for (const Operation run : {&Call::dense, &Call::backward, &Call::sparse}) {
    expect_error_of(run, expected, spoil);
  }
}

TEST(VoxelErrors, TheCallsThatAreSpoiledAreRight) {
  for (const Operation run : {&Call::dense, &Call::backward, &Call::sparse}) {
    Call call;
    EXPECT_EQ(error_of([&] { (call.*run)(); }), "no error");
    EXPECT_FALSE(call.is_untouched());
    Call ragged;
    ragged.use_offsets();
    if (run == &Call::backward) {
      ragged.grad_features = {ragged.grad_features.data, DataType::kFloat32, {6, 4}};
    }
    EXPECT_EQ(error_of([&] { (ragged.*run)(); }), "no error");
  }
}

TEST(VoxelErrors, Points) {
  expect_error("TypeError points: expected float16, bfloat16, float32 or float64, got int32",
               [](Call& call) { call.cloud.points.dtype = DataType::kInt32; });
  expect_error("ValueError points: expected [B,N,3] or [P,3], got [2,3,4]",
               [](Call& call) { call.cloud.points = any_view(DataType::kFloat32, {2, 3, 4}); });
  expect_error("ValueError points: expected [B,N,3] or [P,3], got [3]",
               [](Call& call) { call.cloud.points = any_view(DataType::kFloat32, {3}); });
  expect_error("ValueError points: expected [B,N,3] or [P,3], got []",
               [](Call& call) { call.cloud.points = {}; });
  expect_error("ValueError points: expected [P,3] with offsets, got [2,3,3]",
               [](Call& call) { call.cloud.offsets = any_view(DataType::kInt64, {3}); });
  expect_error("ValueError points: expected device cpu, got cuda",
               [](Call& call) { call.cloud.points.device = DeviceType::kCuda; });
}

TEST(VoxelErrors, Features) {
  expect_error(
      "TypeError features: expected float16, bfloat16, float32, float64 or uint8, got bool",
      [](Call& call) { call.cloud.features.dtype = DataType::kBool; });
  expect_error("ValueError features: expected [B=2,N=3,C], got [2,4,1]",
               [](Call& call) { call.cloud.features = any_view(DataType::kFloat32, {2, 4, 1}); });
  expect_error("ValueError features: expected [B=2,N=3,C], got [6,1]",
               [](Call& call) { call.cloud.features = any_view(DataType::kFloat32, {6, 1}); });
  expect_error("ValueError features: expected [P=6,C], got [2,3,4]",
               [](Call& call) { call.cloud.points = any_view(DataType::kFloat32, {6, 3}); });
  expect_dense_error("ValueError features: expected some for mode 'max', got none", [](Call& call) {
    call.cloud.features = {};
    call.mode = VoxelMode::kMax;
  });
  expect_dense_error("ValueError features: expected none for mode 'count', got some",
                     [](Call& call) { call.mode = VoxelMode::kCount; });
  expect_dense_error("ValueError mode: expected a VoxelMode, got 9",
                     [](Call& call) { call.mode = static_cast<VoxelMode>(9); });
}

TEST(VoxelErrors, Offsets) {
  const auto with = [](const Tensor& offsets) {
    return [offsets](Call& call) {
      call.use_offsets();
      call.offsets = offsets;
      call.cloud.offsets = static_cast<const Tensor&>(call.offsets).view();
      call.grad_features = {call.grad_features.data, DataType::kFloat32, {6, 4}};
    };
  };
  expect_error("TypeError offsets: expected int64 or int32, got float32",
               with(Tensor(DataType::kFloat32, {3})));
  expect_error("ValueError offsets: expected [B+1], got [0]", with(Tensor(DataType::kInt64, {0})));
  expect_error("ValueError offsets: expected [B+1], got [3,1]",
               with(Tensor(DataType::kInt64, {3, 1})));
  expect_error("ValueError offsets: expected 0 first, got 1",
               with(Tensor(DataType::kInt64, {3}, {1, 2, 6})));
  expect_error("ValueError offsets: expected ascending offsets, got 3 after 4 at [2]",
               [&](Call& call) {
                 with(Tensor(DataType::kInt32, {4}, {0, 4, 3, 6}))(call);
                 // Outputs for three clouds; they are checked first.
                 call.grid_out = any_view(DataType::kFloat32, {3, 4, 2, 3, 5});
                 call.grad_output = any_view(DataType::kFloat32, {3, 4, 2, 3, 5});
                 call.dropped_out = any_view(DataType::kInt64, {3});
                 call.offsets_out = any_view(DataType::kInt64, {4});
               });
  expect_error("ValueError offsets: expected P=6 last, got 5",
               with(Tensor(DataType::kInt64, {3}, {0, 2, 5})));
  expect_error("ValueError offsets: expected P=6 last, got 7",
               with(Tensor(DataType::kInt64, {3}, {0, 2, 7})));
}

TEST(VoxelErrors, Geometry) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_error("ValueError voxel_size: expected positive finite sizes, got [1,0,1]",
               [](Call& call) { call.grid.geometry.voxel_size[1] = 0; });
  expect_error("ValueError voxel_size: expected positive finite sizes, got [-0.1,1,1]",
               [](Call& call) { call.grid.geometry.voxel_size[0] = -0.1; });
  expect_error("ValueError voxel_size: expected positive finite sizes, got [1,1,inf]",
               [](Call& call) { call.grid.geometry.voxel_size[2] = kInfinity; });
  expect_error("ValueError voxel_size: expected positive finite sizes, got [1,1,nan]",
               [](Call& call) {
                 call.grid.geometry.voxel_size[2] = std::numeric_limits<double>::quiet_NaN();
               });
  expect_error("ValueError origin: expected finite numbers, got [0,-inf,0]",
               [](Call& call) { call.grid.geometry.origin[1] = -kInfinity; });
  expect_dense_error("ValueError grid_size: expected sizes of at least 1, got [2,0,5]",
                     [](Call& call) { call.grid.shape[1] = 0; });
  expect_dense_error(
      "ValueError grid_size: expected a grid of less than 2^63 bytes, got "
      "[2097152,2097152,2097152] for B=2 and C=4 of float32",
      [](Call& call) {
        for (std::int64_t& size : call.grid.shape) size = 1 << 21;
      });
}

TEST(VoxelErrors, Outputs) {
  expect_dense_error(
      "TypeError grid_out: expected float16, bfloat16, float32, float64 or uint8, got int32",
      [](Call& call) { call.grid_out.dtype = DataType::kInt32; });
  expect_dense_error("TypeError grid_out: expected int32, int64, float32 or float64, got float16",
                     [](Call& call) {
                       call.mode = VoxelMode::kCount;
                       call.cloud.features = {};
                       call.grid_out.dtype = DataType::kFloat16;
                     });
  expect_dense_error(
      "TypeError grid_out: expected float16, bfloat16, float32, float64, uint8, int32 or bool, got "
      "int64",
      [](Call& call) {
        call.mode = VoxelMode::kOccupancy;
        call.cloud.features = {};
        call.grid_out.dtype = DataType::kInt64;
      });
  expect_dense_error(
      "ValueError grid_out: expected contiguous [B=2,C=4,X=2,Y=3,Z=5], got [2,2,3,5]",
      [](Call& call) { call.grid_out = any_view(DataType::kFloat32, {2, 2, 3, 5}); });
  expect_dense_error("ValueError grid_out: expected contiguous elements, got [2,4,2,3,5]",
                     [](Call& call) { call.grid_out.strides[4] = 2; });
  expect_dense_error("ValueError grid_out: expected device cpu, got cuda",
                     [](Call& call) { call.grid_out.device = DeviceType::kCuda; });
  expect_dense_error("TypeError dropped_out: expected int64, got int32",
                     [](Call& call) { call.dropped_out.dtype = DataType::kInt32; });
  expect_dense_error("ValueError dropped_out: expected contiguous [2], got [3]",
                     [](Call& call) { call.dropped_out = any_view(DataType::kInt64, {3}); });
  expect_error_of(&Call::sparse,
                  "ValueError point_to_voxel_out: expected contiguous [2,3], got [6]",
                  [](Call& call) { call.point_to_voxel = any_view(DataType::kInt64, {6}); });
  expect_error_of(&Call::sparse, "ValueError offsets_out: expected contiguous [3], got [2]",
                  [](Call& call) { call.offsets_out = any_view(DataType::kInt64, {2}); });
}

TEST(VoxelErrors, Gradients) {
  const auto expect = [](const std::string& expected, const std::function<void(Call&)>& spoil) {
    expect_error_of(&Call::backward, expected, spoil);
  };
  expect("ValueError mode: expected 'mean', 'sum', 'max' or 'min', got 'count'", [](Call& call) {
    call.mode = VoxelMode::kCount;
    call.cloud.features = {};
  });
  expect("TypeError grad_output: expected float16, bfloat16, float32 or float64, got uint8",
         [](Call& call) { call.grad_output.dtype = DataType::kUInt8; });
  expect("ValueError grad_output: expected [B=2,C=4,X=2,Y=3,Z=5], got [2,4,2,3]",
         [](Call& call) { call.grad_output = any_view(DataType::kFloat32, {2, 4, 2, 3}); });
  expect("TypeError grad_features: expected float32, got float16",
         [](Call& call) { call.grad_features.dtype = DataType::kFloat16; });
  expect("ValueError grad_features: expected contiguous [2,3,4], got [2,3,5]",
         [](Call& call) { call.grad_features = any_view(DataType::kFloat32, {2, 3, 5}); });
  expect("ValueError features: expected the data, which the gradient of 'max' depends on, got none",
         [](Call& call) {
           call.mode = VoxelMode::kMax;
           call.cloud.features.data = nullptr;
         });
}

TEST(VoxelErrors, SparseWriteAndItsGradient) {
  Call call;
  const TensorView coordinates = any_view(DataType::kInt32, {1, 3});
  const TensorView counts = any_view(DataType::kInt32, {1});
  const TensorView features = any_view(DataType::kFloat32, {1, 4});
  const auto write = [&](VoxelMode reduce, const TensorView& to_coordinates,
                         const TensorView& to_features) {
    return error_of([&] {
      voxelize_sparse_write(call.cloud, call.grid.geometry, reduce, 1, to_coordinates, counts,
                            to_features, call.workspace, call.context);
    });
  };
  EXPECT_EQ(write(VoxelMode::kMean, any_view(DataType::kInt32, {2, 3}), features),
            "ValueError coordinates_out: expected contiguous [1,3], got [2,3]");
  EXPECT_EQ(write(VoxelMode::kOccupancy, coordinates, features),
            "ValueError reduce: expected 'mean', 'sum', 'max' or 'min', got 'occupancy'");
  EXPECT_EQ(
      write(VoxelMode::kMean, coordinates, any_view(DataType::kInt32, {1, 4})),
      "TypeError features_out: expected float16, bfloat16, float32, float64 or uint8, got int32");
  EXPECT_EQ(write(VoxelMode::kMean, coordinates, any_view(DataType::kFloat32, {1, 3})),
            "ValueError features_out: expected contiguous [1,4], got [1,3]");
  call.cloud.features = {};
  EXPECT_EQ(write(VoxelMode::kMean, coordinates, features),
            "ValueError features_out: expected none without features, got [1,4]");

  const auto backward = [&](const TensorView& point_to_voxel, const TensorView& voxel_counts,
                            const TensorView& grad) {
    return error_of([&] {
      voxelize_sparse_backward(any_view(DataType::kFloat32, {6, 4}), {point_to_voxel, voxel_counts},
                               VoxelMode::kMean, grad, any_view(DataType::kFloat32, {6, 4}),
                               call.workspace, call.context);
    });
  };
  const TensorView voxels = any_view(DataType::kInt64, {6});
  EXPECT_EQ(backward(any_view(DataType::kInt64, {5}), counts, features),
            "ValueError point_to_voxel: expected contiguous [6], got [5]");
  EXPECT_EQ(backward(voxels, any_view(DataType::kInt32, {7}), features),
            "ValueError counts: expected at most as many voxels as points, 6, got 7");
  EXPECT_EQ(backward(voxels, counts, any_view(DataType::kFloat32, {2, 4})),
            "ValueError grad_output: expected [V=1,C=4], got [2,4]");
}

TEST(VoxelErrors, TooManyPointsToCount) {
  // Elements that are all one: no memory is needed to have so many.
  Call call;
  call.cloud = {any_view(DataType::kFloat32, {1, 3}), {}, {}};
  call.cloud.points.shape[0] = std::int64_t{1} << 31;
  call.cloud.points.strides[0] = 0;
  const auto shape = [&](VoxelMode mode, DataType type) {
    return error_of([&] { voxelized_shape(call.cloud, call.grid, mode, type, call.context); });
  };
  EXPECT_EQ(shape(VoxelMode::kCount, DataType::kInt32),
            "ValueError points: expected at most 2147483647 points for 'count', got 2147483648");
  EXPECT_EQ(shape(VoxelMode::kCount, DataType::kInt64), "no error");
  EXPECT_EQ(shape(VoxelMode::kOccupancy, DataType::kFloat32), "no error");
  EXPECT_EQ(error_of([&] {
              voxelize_sparse_workspace_bytes(call.cloud, call.grid.geometry, call.context);
            }),
            "ValueError points: expected at most 2147483647 points for sparse voxels, got "
            "2147483648");
  // More than 64 bits count.
  ConstTensorView features = any_view(DataType::kFloat32, {1, 4, 1});
  ConstTensorView voxels = any_view(DataType::kInt64, {1, 4});
  features.shape[0] = voxels.shape[0] = std::int64_t{1} << 62;
  EXPECT_EQ(error_of([&] {
              voxelize_sparse_backward_workspace_bytes(features,
                                                       {voxels, any_view(DataType::kInt32, {0})},
                                                       VoxelMode::kSum, call.context);
            }),
            "ValueError points: expected at most 2147483647 points for sparse voxels, got "
            "9223372036854775807");
}

TEST(VoxelErrors, Workspace) {
  const auto with = [](Workspace workspace, const auto& run) {
    Call call;
    call.workspace = workspace;
    const std::string error = error_of([&] { run(call); });
    EXPECT_TRUE(call.is_untouched()) << error;
    return error;
  };
  const Call call;
  const std::string needed = std::to_string(
      voxelize_workspace_bytes(call.cloud, call.grid, call.mode, DataType::kFloat32, call.context));
  const auto dense = [](const Call& each) { each.dense(); };
  EXPECT_EQ(with({}, dense),
            "ValueError workspace: expected " + needed + " bytes aligned to 8, got none");
  EXPECT_EQ(with({const_cast<std::int64_t*>(call.scratch.data()), 16}, dense),
            "ValueError workspace: expected " + needed + " bytes aligned to 8, got 16 bytes");
  const Workspace odd{reinterpret_cast<char*>(const_cast<std::int64_t*>(call.scratch.data())) + 3,
                      70'000};
  EXPECT_EQ(with(odd, dense), "ValueError workspace: expected " + needed +
                                  " bytes aligned to 8, got an address that is 3 past that");
  const std::string none = "bytes aligned to 8, got none";
  EXPECT_NE(with({}, [](const Call& each) { each.backward(); }).find(none), std::string::npos);
  EXPECT_NE(with({}, [](const Call& each) { each.sparse(); }).find(none), std::string::npos);
}

#if !defined(ROBOCACHE_HAS_CUDA)
TEST(VoxelErrors, NoCuda) {
  expect_error("DeviceError context: expected the CPU, got CUDA in " + cuda_problem(0),
               [](Call& call) { call.context = on_cuda(nullptr); });
}
#endif

}  // namespace
}  // namespace robocache::testing
