// Dispatch from a DataType at run time to code compiled for the type.
#pragma once

#include <cstdint>

#include "core/number.h"
#include "core/target.h"

namespace robocache::ROBOCACHE_TARGET {

/// A tag that carries a type without a value of it.
template <typename T>
struct Type {
  using type = T;
};

// Each function calls `body` with the Type<> of `type`, which must be of the kind in its name.

template <typename Body>
inline void with_floating_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat16:
      return body(Type<Float16>{});
    case DataType::kBFloat16:
      return body(Type<BFloat16>{});
    case DataType::kFloat64:
      return body(Type<double>{});
    default:
      return body(Type<float>{});
  }
}

template <typename Body>
inline void with_value_type(DataType type, const Body& body) {
  switch (type) {
    case DataType::kFloat16:
      return body(Type<Float16>{});
    case DataType::kBFloat16:
      return body(Type<BFloat16>{});
    case DataType::kFloat32:
      return body(Type<float>{});
    case DataType::kFloat64:
      return body(Type<double>{});
    default:
      return body(Type<std::uint8_t>{});
  }
}

template <typename Body>
inline void with_time_type(DataType type, const Body& body) {
  if (type == DataType::kInt64) return body(Type<std::int64_t>{});
  if (type == DataType::kFloat64) return body(Type<double>{});
  body(Type<float>{});
}

}  // namespace robocache::ROBOCACHE_TARGET
