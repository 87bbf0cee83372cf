// Non-owning views of strided arrays: the arguments and results of every function of the library. A
// view is a pointer, a type, a shape and strides; copying one copies no data.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "robocache/export.h"

namespace robocache {

enum class DataType : std::uint8_t {
  kFloat16,   // IEEE binary16, stored as its bits in a std::uint16_t
  kBFloat16,  // the upper half of an IEEE binary32, stored as its bits in a std::uint16_t
  kFloat32,
  kFloat64,
  kUInt8,
  kBool,  // one byte, 0 or 1
  kInt32,
  kInt64,
  // An episode store holds these too; no operation computes with them.
  kInt8,
  kInt16,
  kUInt16,
  kUInt32,
  kUInt64,
  // No function takes these; error messages name them.
  kComplex64,
  kComplex128,
  kOther,
};

/// The size in bytes of one element, for types that operations take or an episode store holds.
constexpr std::int64_t size_of(DataType type) {
  switch (type) {
    case DataType::kUInt8:
    case DataType::kBool:
    case DataType::kInt8:
      return 1;
    case DataType::kFloat16:
    case DataType::kBFloat16:
    case DataType::kInt16:
    case DataType::kUInt16:
      return 2;
    case DataType::kFloat32:
    case DataType::kInt32:
    case DataType::kUInt32:
      return 4;
    default:
      return 8;
  }
}

constexpr bool is_floating_type(DataType type) {
  return type == DataType::kFloat16 || type == DataType::kBFloat16 || type == DataType::kFloat32 ||
         type == DataType::kFloat64;
}

/// The type's name as NumPy and PyTorch write it: "float32".
ROBOCACHE_API const char* name_of(DataType type);

/// The device whose memory a view points into.
enum class DeviceType : std::uint8_t { kCpu, kCuda };

inline constexpr int kMaxRank = 8;

/// A strided array. `Data` is void or const void. A view of rank 0 without data stands for an
/// optional argument that is absent; one with data is a single number.
template <typename Data>
struct BasicTensorView {
  Data* data = nullptr;
  DataType dtype = DataType::kFloat32;
  DeviceType device = DeviceType::kCpu;
  int rank = 0;
  std::int64_t shape[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};  // in elements

  BasicTensorView() = default;

  /// A contiguous (row-major) array of `extents` at `elements`.
  BasicTensorView(Data* elements, DataType type, std::initializer_list<std::int64_t> extents,
                  DeviceType where = DeviceType::kCpu)
      : data(elements), dtype(type), device(where), rank(static_cast<int>(extents.size())) {
    std::int64_t stride = 1;
    for (int axis = rank - 1; axis >= 0; --axis) {
      shape[axis] = extents.begin()[axis];
      strides[axis] = stride;
      stride *= shape[axis];
    }
  }

  /// Converts a writable view to a read-only one.
  template <typename D = Data, typename = std::enable_if_t<std::is_const_v<D>>>
  BasicTensorView(const BasicTensorView<std::remove_const_t<D>>& writable)
      : data(writable.data), dtype(writable.dtype), device(writable.device), rank(writable.rank) {
    for (int axis = 0; axis < rank; ++axis) {
      shape[axis] = writable.shape[axis];
      strides[axis] = writable.strides[axis];
    }
  }

  /// Whether the optional argument is present. An array without elements is.
  bool present() const { return rank > 0 || data != nullptr; }
};

using TensorView = BasicTensorView<void>;
using ConstTensorView = BasicTensorView<const void>;

/// The DataType of a C++ type; kOther for types without one.
template <typename T>
inline constexpr DataType kDataTypeOf = DataType::kOther;
template <>
inline constexpr DataType kDataTypeOf<float> = DataType::kFloat32;
template <>
inline constexpr DataType kDataTypeOf<double> = DataType::kFloat64;
template <>
inline constexpr DataType kDataTypeOf<bool> = DataType::kBool;
template <>
inline constexpr DataType kDataTypeOf<std::uint8_t> = DataType::kUInt8;
template <>
inline constexpr DataType kDataTypeOf<std::int32_t> = DataType::kInt32;
template <>
inline constexpr DataType kDataTypeOf<std::int64_t> = DataType::kInt64;

/// A view of a contiguous (row-major) array of `extents` at `elements`, with the DataType of `T`.
///
///     std::vector<float> joints(100 * 7);
///     stream.values = array(joints.data(), {100, 7});
///
/// The 16-bit floating-point types have no C++ type: use the constructor, which takes a DataType.
template <typename T>
auto array(T* elements, std::initializer_list<std::int64_t> extents,
           DeviceType where = DeviceType::kCpu) {
  constexpr DataType kType = kDataTypeOf<std::remove_const_t<T>>;
  static_assert(
      kType != DataType::kOther,
      "no operation takes this type; TensorView(elements, DataType, extents) is for types "
      "that C++ has no name for");
  return BasicTensorView<std::conditional_t<std::is_const_v<T>, const void, void>>(elements, kType,
                                                                                   extents, where);
}

}  // namespace robocache
