// The work of the node without ROS, so that it can be tested where ROS is missing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "robocache/policy_spec.h"
#include "robocache_policy/routes.h"

namespace robocache_policy {

/// The parameters of the node; README.md describes them.
struct Parameters {
  std::string spec = "policy_spec.json";
  std::vector<std::string> topics;
  std::vector<std::string> joint_names;
  std::string action = "action";
  double rate_hz = 50;
};

/// The parts of a sensor_msgs/Image that make a row.
struct ImageView {
  std::int64_t height, width;
  const std::string& encoding;
  std::int64_t step;
  const std::vector<std::uint8_t>& data;
};

/// Pushes the rows of messages, queries windows and runs the policy.
///
/// Each route has one thread that pushes; one more thread steps.
class PolicyLoop {
 public:
  /// Throws robocache::Error and std::invalid_argument where parameters do not fit the spec.
  explicit PolicyLoop(const Parameters& parameters);

  const std::vector<Route>& routes() const { return routes_; }
  const robocache::LiveAligner& aligner() const { return aligner_; }

  /// The names of streams of joints whose channels have no names: rows must come in the spec's
  /// order.
  std::vector<std::string> unnamed() const;

  /// Pushes an array of a JointState. Returns why it was not pushed; empty where it was, or where
  /// the message has none of the stream's joints and is thus another node's.
  std::string push_joints(std::size_t route, std::int64_t stamp_ns,
                          const std::vector<std::string>& names, const std::vector<double>& values);

  /// Pushes an image. Returns why it was not pushed; empty where it was.
  std::string push_image(std::size_t route, std::int64_t stamp_ns, const ImageView& image);

  /// Pushes the JPEG file of a CompressedImage. Returns why it was not pushed; empty where it was.
  std::string push_compressed(std::size_t route, std::int64_t stamp_ns, const std::string& format,
                              const std::vector<std::uint8_t>& data);

  /// The result of a step.
  struct Step {
    std::vector<float> command;  // the first action, [D] in the robot's units; empty: none
    std::string problem;         // why there is no command; empty: none, or a dry run
  };
  /// Queries the windows at a time of the clock of the messages' stamps, and runs the policy.
  Step step(std::int64_t now_ns);

 private:
  /// The order of messages with one list of names, or why they have none.
  struct Order {
    std::optional<robocache::ChannelOrder> order;
    std::string problem;
  };
  std::string problem_of_streams() const;
  const robocache::LiveStream& stream_of(const Route& route) const;
  std::string push_unnamed(const Route& route, std::int64_t stamp_ns,
                           const std::vector<double>& values);
  const Order& order_of(std::size_t route, const std::vector<std::string>& names);
  Order find_order(const Route& route, const std::vector<std::string>& names) const;

  robocache::LiveAligner aligner_;
  std::vector<Route> routes_;
  std::map<std::string, std::string> channels_;  // by the driver's name
  const robocache::LiveKey* action_;
  std::vector<std::byte> windows_;
  // By route, so that threads share nothing: orders by names, and an image's pixels.
  std::vector<std::map<std::vector<std::string>, Order>> orders_;
  std::vector<std::vector<std::uint8_t>> pixels_;
};

}  // namespace robocache_policy
