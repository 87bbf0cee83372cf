// Reads the golden cases of tests/golden, which every backend of the project does: its README says
// the format.
#pragma once

#include <cstdint>
#include <fstream>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "support/environment.h"
#include "support/tensor.h"

namespace robocache::testing {

using Json = nlohmann::json;

/// The cases of a file in the folder that the environment names, for a build that has moved to
/// another machine, or in this tree's.
inline Json cases_of(const std::string& file_name) {
  const std::string folder = environment("ROBOCACHE_GOLDEN_CASES");
  const std::string path = (folder.empty() ? ROBOCACHE_GOLDEN_CASES : folder) + "/" + file_name;
  std::ifstream file(path);
  if (!file.good()) throw std::runtime_error(path + ": can't be opened");
  return Json::parse(file).at("cases");
}

template <typename T>
T lookup(const std::map<std::string, T>& table, const std::string& name) {
  const auto found = table.find(name);
  if (found == table.end()) throw std::runtime_error("no " + name + " is known here");
  return found->second;
}

inline DataType type_of(const std::string& name) {
  for (int type = 0; type < static_cast<int>(DataType::kOther); ++type) {
    if (name == name_of(static_cast<DataType>(type))) return static_cast<DataType>(type);
  }
  throw std::runtime_error("no type " + name + " is known here");
}

/// The type of one of a case's tensors.
inline DataType type_of(const Json& tensor, const char* key) {
  return type_of(tensor.at(key).at("dtype"));
}

inline double number_of(const Json& element) {
  if (element.is_boolean()) return element.get<bool>() ? 1 : 0;
  if (!element.is_string()) return element.get<double>();
  const std::map<std::string, double> names = {{"nan", std::numeric_limits<double>::quiet_NaN()},
                                               {"inf", std::numeric_limits<double>::infinity()},
                                               {"-inf", -std::numeric_limits<double>::infinity()}};
  return lookup(names, element.get<std::string>());
}

/// Converted to `type`; null gives an absent tensor.
inline Tensor tensor_of(const Json& json, DataType type) {
  if (json.is_null()) return {};
  Tensor tensor(type, json.at("shape").get<std::vector<std::int64_t>>());
  const Json& data = json.at("data");
  if (static_cast<std::int64_t>(data.size()) != tensor.size()) {
    throw std::runtime_error("data does not fit its shape");
  }
  for (std::int64_t i = 0; i < tensor.size(); ++i) {
    if (type == DataType::kInt64) {
      tensor.set_int(i, data[i].get<std::int64_t>());
    } else {
      tensor.set(i, number_of(data[i]));
    }
  }
  return tensor;
}

inline Tensor tensor_of(const Json& json) {
  return json.is_null() ? Tensor() : tensor_of(json, type_of(json.at("dtype")));
}

}  // namespace robocache::testing
