#include "robocache/error.h"

#include "core/check.h"

namespace robocache {

// Defined here so that each class has one type_info, by which a caller in another shared library
// catches the exception.
ValueError::~ValueError() = default;
TypeError::~TypeError() = default;
DeviceError::~DeviceError() = default;
StoreError::~StoreError() = default;

std::string shape_text(const ConstTensorView& view) {
  std::string text = "[";
  for (int axis = 0; axis < view.rank; ++axis) {
    if (axis > 0) text += ",";
    text += std::to_string(view.shape[axis]);
  }
  return text + "]";
}

std::string dimension(const char* name, std::int64_t size) {
  return size < 0 ? name : std::string(name) + "=" + std::to_string(size);
}

const char* device_name(DeviceType device) { return device == DeviceType::kCuda ? "cuda" : "cpu"; }

}  // namespace robocache
