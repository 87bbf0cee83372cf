// What manifests and policy specs say of a stream in the same words: names, types, shapes, methods.
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

/// What a table has under a text; the refusal lists the table.
template <typename T, std::size_t kCount>
T choice(const Value& value, const std::pair<std::string_view, T> (&table)[kCount]) {
  std::string names;
  for (std::size_t i = 0; i < kCount; ++i) {
    if (value.is_text() && value.text() == table[i].first) return table[i].second;
    names += (i == 0 ? "" : i + 1 < kCount ? ", " : " or ") + std::string(table[i].first);
  }
  value.refuse(names);
}

/// A type by safetensors' name, "F32"; nothing for what a store does not hold.
std::optional<DataType> type_of(std::string_view name);

/// safetensors' name of a type that a store holds.
std::string type_text(DataType type);

/// a * b of numbers that are not negative; nothing where it does not fit.
std::optional<std::int64_t> product(std::int64_t a, std::int64_t b);

// Each throws a StoreError that names the value where it is something else.

std::string stream_name(const Value& value);

DataType element_type(const Value& value);

/// Sizes of a row; the elements that they make up come second.
std::pair<std::vector<std::int64_t>, std::int64_t> row_shape(const Value& value);

/// The method of a row of so many elements; or, where it is a list, the layout of its runs.
std::pair<Method, std::vector<Run>> read_method(const Value& value, std::int64_t elements);

Timeline read_timeline(const Value& value);

/// Hz, above 0; nothing for null.
std::optional<double> optional_rate(const Value& value);

}  // namespace robocache::store
