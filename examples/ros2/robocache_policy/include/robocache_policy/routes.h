// The topics that the rows of a policy's streams come from.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "robocache/live.h"

namespace robocache_policy {

/// The part of a message that is a row.
enum class Field { kImage, kCompressedImage, kPosition, kVelocity, kEffort };

/// A stream of the policy spec and where its rows come from.
struct Route {
  std::int64_t stream = 0;  // its number in the aligner
  std::string topic;
  // A field of sensor_msgs/JointState; kImage and kCompressedImage: the type of the messages.
  Field field = Field::kImage;

  bool has_images() const { return field == Field::kImage || field == Field::kCompressedImage; }
};

/// The route of each stream that takes rows; images that were JPEG in training come as
/// CompressedImage. `topics`: STREAM:=TOPIC for images,
/// STREAM:=TOPIC/FIELD for joints; a stream without an entry has its own name as its topic, which
/// is how RoboCache names the streams of bags.
///
/// Throws std::invalid_argument for an entry that is not of this form.
std::vector<Route> find_routes(const robocache::LiveAligner& aligner,
                               const std::vector<std::string>& topics);

/// The pairs of a parameter that is a list of KEY:=VALUE; empty texts are skipped, since ROS has no
/// type for an empty list. Throws std::invalid_argument.
std::map<std::string, std::string> parse_pairs(const std::string& name,
                                               const std::vector<std::string>& pairs);

}  // namespace robocache_policy
