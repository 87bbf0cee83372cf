#include "store/stream_values.h"

#include <cmath>
#include <limits>

#include "align/method_names.h"
#include "align/plan.h"

namespace robocache::store {
namespace {

constexpr std::int64_t kHighest = std::numeric_limits<std::int64_t>::max();
// A view has one more axis than a row of a stream: the axis of rows.
constexpr std::size_t kMaxRowRank = kMaxRank - 1;

constexpr std::pair<std::string_view, DataType> kTypes[] = {
    {"BOOL", DataType::kBool},   {"U8", DataType::kUInt8},      {"I8", DataType::kInt8},
    {"U16", DataType::kUInt16},  {"I16", DataType::kInt16},     {"U32", DataType::kUInt32},
    {"I32", DataType::kInt32},   {"U64", DataType::kUInt64},    {"I64", DataType::kInt64},
    {"F16", DataType::kFloat16}, {"BF16", DataType::kBFloat16}, {"F32", DataType::kFloat32},
    {"F64", DataType::kFloat64},
};

}  // namespace

DataType element_type(const Value& value) { return choice(value, kTypes); }

std::string stream_name(const Value& value) {
  const std::string& name = value.text();
  bool is_good = !name.empty() && name != "episode";
  for (const char letter : name) is_good = is_good && static_cast<unsigned char>(letter) >= 0x20;
  if (!is_good) value.refuse("a name without control characters, other than \"episode\"");
  return name;
}

RowShape row_shape(const Value& value, bool may_be_ragged) {
  RowShape row;
  const std::vector<Value> sizes = value.items();
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (axis == 0 && may_be_ragged && sizes[axis].is_null()) {
      row.is_ragged = true;
      continue;
    }
    const std::int64_t size = sizes[axis].integer(kHighest);
    if (size == 0) sizes[axis].refuse("1 or more");
    const auto more = product(row.elements, size);
    if (!more) value.refuse("a row of at most " + std::to_string(kHighest) + " elements");
    row.elements = *more;
    row.shape.push_back(size);
  }
  if (sizes.size() > kMaxRowRank) {
    value.refuse("at most " + std::to_string(kMaxRowRank) + " sizes");
  }
  return row;
}

std::pair<Method, std::vector<Run>> read_method(const Value& value, std::int64_t elements,
                                                bool allows_any_slerp) {
  const auto check_run = [&](const Value& where, const Run& run) {
    if (run.channels == 0) where.refuse("a run of 1 channel or more");
    if (is_slerp(run.method) && run.channels != 4 && !allows_any_slerp) {
      where.refuse("a slerp of 4 channels");
    }
  };
  if (value.is_text()) {
    const Method method = choice(value, kMethodNames);
    check_run(value, {method, elements});
    return {method, {}};
  }
  std::vector<Run> layout;
  std::int64_t sum = 0;
  for (const Value& item : value.items()) {
    const std::vector<Value> pair = item.items();
    if (pair.size() != 2) item.refuse("a method and its number of channels");
    const Run run{choice(pair[0], kMethodNames), pair[1].integer(elements - sum)};
    check_run(item, run);
    sum += run.channels;
    layout.push_back(run);
  }
  if (sum != elements) {
    value.refuse("runs that sum to the row's " + std::to_string(elements) + " elements");
  }
  return {Method::kLinear, std::move(layout)};
}

std::optional<DataType> type_of(std::string_view name) {
  for (const auto& [text, type] : kTypes) {
    if (text == name) return type;
  }
  return std::nullopt;
}

std::string type_text(DataType type) {
  for (const auto& [text, each] : kTypes) {
    if (each == type) return std::string(text);
  }
  return name_of(type);
}

std::optional<std::int64_t> product(std::int64_t a, std::int64_t b) {
  std::int64_t result = 0;
  if (__builtin_mul_overflow(a, b, &result)) return std::nullopt;
  return result;
}

std::optional<double> optional_rate(const Value& value) {
  if (value.is_null()) return std::nullopt;
  const double rate = value.number();
  if (!(rate > 0) || !std::isfinite(rate)) value.refuse("null or a rate above 0");
  return rate;
}

}  // namespace robocache::store
