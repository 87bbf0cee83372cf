// The fields of a stream that manifests and policy specs share: names, types, shapes, methods.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "robocache/store.h"
#include "store/json.h"

namespace robocache::store {

/// The value of a text in a table; the error message lists the table's texts.
template <typename T, std::size_t kCount>
T choice(const Value& value, const std::pair<std::string_view, T> (&table)[kCount]) {
  std::string names;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (value.is_text() && value.text() == table[i].first) return table[i].second;
    names += (i == 0 ? "" : i + 1 < kCount ? ", " : " or ") + std::string(table[i].first);
  }
  value.refuse(names);
}

inline constexpr std::pair<std::string_view, Timeline> kTimelineNames[] = {
    {"time", Timeline::kTime},
    {"rows", Timeline::kRows},
};

/// The type with a safetensors name, "F32"; nullopt for types that a store does not support.
std::optional<DataType> type_of(std::string_view name);

/// The safetensors name of a type that a store supports.
std::string type_text(DataType type);

/// a * b of numbers that are not negative; nullopt if it overflows.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b);

// Each of these throws a StoreError that names the value if it is invalid.

std::string stream_name(const Value& value);

DataType element_type(const Value& value);

struct RowShape {
  std::vector<std::int64_t> shape;  // of a row, or of an item of a ragged row
  std::int64_t elements = 1;        // of that shape
  bool is_ragged = false;
};

/// The shape of a row. If `may_be_ragged`, its first size may be null: each row has its own.
RowShape row_shape(const Value& value, bool may_be_ragged = false);

/// The method of a row of `elements` elements; or the layout of its runs, if the value is a list.
/// `allows_any_slerp`: for windows, whose validator checks the width of slerp runs.
std::pair<Method, std::vector<Run>> read_method(const Value& value, std::int64_t elements,
                                                bool allows_any_slerp = false);

/// A rate in Hz, above 0; nullopt for null.
std::optional<double> optional_rate(const Value& value);

}  // namespace robocache::store
