#include "tensors.h"

#include <torch/csrc/inductor/aoti_torch/c/shim.h>
#include <torch/csrc/stable/ops.h>

#include <cstdint>
#include <string>

#include "robocache/error.h"

extern "C" {
// Null where torch has no CUDA. Declared here, because torch's header hides it from builds without
// the CUDA toolkit, and because only a weak symbol may stay unresolved.
__attribute__((weak)) AOTITorchError aoti_torch_get_current_cuda_stream(int32_t device_index,
                                                                        void** ret_stream);
}

namespace robocache::torch_binding {
namespace {

struct DataTypeOfTorch {
  std::int32_t torch_type;
  DataType type;
};

const DataTypeOfTorch* find_torch_type(std::int32_t torch_type) {
  // The numbers of torch's types are private to torch; these functions are its stable interface.
  static const DataTypeOfTorch known[] = {
      {aoti_torch_dtype_float32(), DataType::kFloat32},
      {aoti_torch_dtype_bfloat16(), DataType::kBFloat16},
      {aoti_torch_dtype_float16(), DataType::kFloat16},
      {aoti_torch_dtype_int64(), DataType::kInt64},
      {aoti_torch_dtype_float64(), DataType::kFloat64},
      {aoti_torch_dtype_uint8(), DataType::kUInt8},
      {aoti_torch_dtype_bool(), DataType::kBool},
      {aoti_torch_dtype_int32(), DataType::kInt32},
      {aoti_torch_dtype_int8(), DataType::kInt8},
      {aoti_torch_dtype_int16(), DataType::kInt16},
      {aoti_torch_dtype_complex64(), DataType::kComplex64},
      {aoti_torch_dtype_complex128(), DataType::kComplex128},
  };
  for (const DataTypeOfTorch& each : known) {
    if (each.torch_type == torch_type) return &each;
  }
  return nullptr;
}

std::int32_t torch_type_of(DataType type) {
  switch (type) {
    case DataType::kFloat16:
      return aoti_torch_dtype_float16();
    case DataType::kBFloat16:
      return aoti_torch_dtype_bfloat16();
    case DataType::kFloat64:
      return aoti_torch_dtype_float64();
    case DataType::kUInt8:
      return aoti_torch_dtype_uint8();
    case DataType::kBool:
      return aoti_torch_dtype_bool();
    case DataType::kInt32:
      return aoti_torch_dtype_int32();
    case DataType::kInt64:
      return aoti_torch_dtype_int64();
    default:
      return aoti_torch_dtype_float32();
  }
}

std::int32_t device_type_of(const Tensor& tensor) {
  std::int32_t type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_type(tensor.get(), &type));
  return type;
}

/// "cpu" or "cuda:0"; other device types appear as their number.
std::string device_text(std::int32_t type, std::int32_t index) {
  if (type == aoti_torch_device_type_cpu()) return "cpu";
  if (type == aoti_torch_device_type_cuda()) return "cuda:" + std::to_string(index);
  if (type == aoti_torch_device_type_meta()) return "meta";
  return "device type " + std::to_string(type);
}

}  // namespace

DataType dtype_of(const Tensor& tensor) {
  std::int32_t torch_type = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_dtype(tensor.get(), &torch_type));
  const DataTypeOfTorch* type = find_torch_type(torch_type);
  return type == nullptr ? DataType::kOther : type->type;
}

ConstTensorView view_of(const char* name, const Tensor& tensor) {
  ConstTensorView view;
  view.dtype = dtype_of(tensor);
  view.device = device_type_of(tensor) == aoti_torch_device_type_cuda() ? DeviceType::kCuda
                                                                        : DeviceType::kCpu;
  const auto sizes = tensor.sizes();
  const auto strides = tensor.strides();
  if (sizes.size() > kMaxRank) {
    throw ValueError(std::string(name) + ": expected at most " + std::to_string(kMaxRank) +
                     " dimensions, got " + std::to_string(sizes.size()));
  }
  view.rank = static_cast<int>(sizes.size());
  for (int axis = 0; axis < view.rank; ++axis) {
    view.shape[axis] = sizes[axis];
    view.strides[axis] = strides[axis];
  }
  view.data = tensor.const_data_ptr();
  return view;
}

ConstTensorView view_of(const char* name, const std::optional<Tensor>& tensor) {
  return tensor ? view_of(name, *tensor) : ConstTensorView{};
}

TensorView mutable_view_of(const Tensor& tensor) {
  const ConstTensorView view = view_of("output", tensor);
  TensorView written;
  written.data = tensor.mutable_data_ptr();
  written.dtype = view.dtype;
  written.device = view.device;
  written.rank = view.rank;
  for (int axis = 0; axis < view.rank; ++axis) {
    written.shape[axis] = view.shape[axis];
    written.strides[axis] = view.strides[axis];
  }
  return written;
}

Device::Device(const Tensor& first) : type_(device_type_of(first)) {
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(first.get(), &index_));
  if (type_ == aoti_torch_device_type_cuda()) guard_.emplace(index_);
}

void Device::expect(const char* name, const Tensor& tensor, const char* first_name) const {
  std::int32_t index = 0;
  TORCH_ERROR_CODE_CHECK(aoti_torch_get_device_index(tensor.get(), &index));
  const std::int32_t type = device_type_of(tensor);
  if (type != type_ || index != index_) {
    throw ValueError(std::string(name) + ": expected device " + device_text(type_, index_) +
                     " like " + first_name + ", got " + device_text(type, index));
  }
}

ExecutionContext Device::context() const {
  if (type_ == aoti_torch_device_type_cuda()) {
    if (&aoti_torch_get_current_cuda_stream == nullptr) {
      throw DeviceError("torch has CUDA tensors, but no CUDA streams");
    }
    void* stream = nullptr;
    TORCH_ERROR_CODE_CHECK(aoti_torch_get_current_cuda_stream(index_, &stream));
    return on_cuda(static_cast<CUstream_st*>(stream));
  }
  return on_torch_threads();
}

ExecutionContext on_torch_threads() {
  return on_cpu(
      [](void*, std::int64_t count, std::int64_t grain, ParallelBody body, void* body_data) {
        struct Call {
          ParallelBody body;
          void* body_data;
        } call{body, body_data};
        // On torch's thread pool.
        TORCH_ERROR_CODE_CHECK(torch_parallel_for(
            0, count, grain,
            [](std::int64_t begin, std::int64_t end, void* data) {
              const Call& made = *static_cast<const Call*>(data);
              made.body(made.body_data, begin, end);
            },
            &call));
      });
}

Tensor Device::empty(const std::int64_t* size, int rank, DataType dtype) const {
  std::int64_t strides[kMaxRank];
  std::int64_t stride = 1;
  for (int axis = rank - 1; axis >= 0; --axis) {
    strides[axis] = stride;
    stride *= size[axis] > 1 ? size[axis] : 1;
  }
  AtenTensorHandle handle = nullptr;
  TORCH_ERROR_CODE_CHECK(
      aoti_torch_empty_strided(rank, size, strides, torch_type_of(dtype), type_, index_, &handle));
  return Tensor(handle);
}

Scratch::Scratch(const Device& device, std::size_t bytes) {
  if (bytes == 0) return;
  constexpr std::size_t kAlignment = 256;
  const auto size = static_cast<std::int64_t>(bytes + kAlignment - 1);
  memory_ = device.empty(&size, 1, DataType::kUInt8);
  char* const start = static_cast<char*>(memory_->mutable_data_ptr());
  const std::size_t past = reinterpret_cast<std::uintptr_t>(start) % kAlignment;
  // torch's CPU allocator aligns less than kAlignment.
  workspace_ = {start + (past == 0 ? 0 : kAlignment - past), bytes};
}

Tensor converted(const Tensor& tensor, DataType dtype) {
  if (dtype_of(tensor) == dtype) return tensor;
  return torch::stable::to(tensor, dtype == DataType::kFloat64
                                       ? torch::headeronly::ScalarType::Double
                                       : torch::headeronly::ScalarType::Float);
}

}  // namespace robocache::torch_binding
