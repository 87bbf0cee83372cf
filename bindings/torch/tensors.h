// Conversion of torch's tensors to the library's views.
#pragma once

#include <torch/csrc/stable/accelerator.h>
#include <torch/csrc/stable/tensor.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "robocache/execution.h"
#include "robocache/tensor_view.h"

namespace robocache::torch_binding {

using torch::stable::Tensor;

DataType dtype_of(const Tensor& tensor);

/// A tensor's view. Throws ValueError, with the argument's name, if it has more dimensions than any
/// operation takes.
ConstTensorView view_of(const char* name, const Tensor& tensor);

/// A view without data if the tensor is absent.
ConstTensorView view_of(const char* name, const std::optional<Tensor>& tensor);

/// A CPU context that runs on torch's thread pool.
ExecutionContext on_torch_threads();

/// The device of a call: that of its first tensor, with torch's current stream. The device is
/// current for the lifetime of this object.
class Device {
 public:
  explicit Device(const Tensor& first);

  /// Throws ValueError unless the tensor is on this device. `first_name` names the
  /// tensor whose device it is.
  void expect(const char* name, const Tensor& tensor, const char* first_name) const;
  void expect(const char* name, const std::optional<Tensor>& tensor, const char* first_name) const {
    if (tensor) expect(name, *tensor, first_name);
  }

  ExecutionContext context() const;

  /// A new contiguous tensor on this device with uninitialized elements. `size` has `rank` numbers.
  Tensor empty(const std::int64_t* size, int rank, DataType dtype) const;

 private:
  std::int32_t type_;
  std::int32_t index_;
  std::optional<torch::stable::accelerator::DeviceGuard> guard_;
};

/// Scratch memory of a call, aligned as the library's operations require; null for 0 bytes.
class Scratch {
 public:
  Scratch(const Device& device, std::size_t bytes);

  const Workspace& workspace() const { return workspace_; }

 private:
  std::optional<Tensor> memory_;
  Workspace workspace_;
};

/// A view of a tensor that `Device::empty` allocated.
TensorView mutable_view_of(const Tensor& tensor);

/// `tensor` converted to another floating type; `tensor` itself if it has that type.
Tensor converted(const Tensor& tensor, DataType dtype);

}  // namespace robocache::torch_binding
