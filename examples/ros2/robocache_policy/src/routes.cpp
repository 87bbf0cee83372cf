#include "robocache_policy/routes.h"

#include <cstddef>
#include <stdexcept>
#include <utility>

namespace robocache_policy {
namespace {

using robocache::LiveStream;

constexpr std::pair<const char*, Field> kFields[] = {
    {"position", Field::kPosition}, {"velocity", Field::kVelocity}, {"effort", Field::kEffort}};

bool is_image(const LiveStream& stream) {
  return stream.dtype == robocache::DataType::kUInt8 && stream.shape.size() == 3;
}

Route joints_route(const LiveStream& stream, std::int64_t number, const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash != std::string::npos && slash > 0 && stream.shape.size() == 1) {
    for (const auto& [name, field] : kFields) {
      if (path.substr(slash + 1) == name) return {number, path.substr(0, slash), field};
    }
  }
  throw std::invalid_argument("topics['" + stream.name +
                              "']: expected a topic and a field of JointState, as in "
                              "'/joint_states/position', got '" +
                              path + "'");
}

}  // namespace

std::map<std::string, std::string> parse_pairs(const std::string& name,
                                               const std::vector<std::string>& pairs) {
  std::map<std::string, std::string> found;
  for (const std::string& pair : pairs) {
    if (pair.empty()) continue;
    const std::size_t at = pair.find(":=");
    if (at == std::string::npos || at == 0 || at + 2 == pair.size()) {
      throw std::invalid_argument(name + ": expected KEY:=VALUE, got '" + pair + "'");
    }
    if (!found.emplace(pair.substr(0, at), pair.substr(at + 2)).second) {
      throw std::invalid_argument(name + ": expected each key once, got '" + pair.substr(0, at) +
                                  "' twice");
    }
  }
  return found;
}

std::vector<Route> find_routes(const robocache::LiveAligner& aligner,
                               const std::vector<std::string>& topics) {
  std::map<std::string, std::string> given = parse_pairs("topics", topics);
  std::vector<Route> routes;
  std::string names;
  for (std::size_t i = 0; i < aligner.streams().size(); ++i) {
    const LiveStream& stream = aligner.streams()[i];
    if (stream.buffer_rows == 0) continue;  // it takes no rows
    names += (names.empty() ? "" : ", ") + stream.name;
    const auto entry = given.find(stream.name);
    const std::string path = entry == given.end() ? stream.name : entry->second;
    if (entry != given.end()) given.erase(entry);
    const auto number = static_cast<std::int64_t>(i);
    if (is_image(stream)) {
      routes.push_back({number, path, stream.encoding ? Field::kCompressedImage : Field::kImage});
    } else {
      routes.push_back(joints_route(stream, number, path));
    }
  }
  if (given.empty()) return routes;
  throw std::invalid_argument("topics: expected streams that take rows (" + names + "), got '" +
                              given.begin()->first + "'");
}

}  // namespace robocache_policy
