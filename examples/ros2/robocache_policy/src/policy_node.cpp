#include "robocache_policy/policy_node.h"

#include <chrono>
#include <map>
#include <utility>

namespace robocache_policy {
namespace {

constexpr int kThrottleMs = 1000;  // between two warnings of one place

std::int64_t nanoseconds(const builtin_interfaces::msg::Time& stamp) {
  return std::int64_t{stamp.sec} * 1'000'000'000 + stamp.nanosec;
}

const std::vector<double>& field_of(const sensor_msgs::msg::JointState& message, Field field) {
  return field == Field::kVelocity ? message.velocity
         : field == Field::kEffort ? message.effort
                                   : message.position;
}

}  // namespace

PolicyNode::PolicyNode() : Node("policy"), parameters_(declare_parameters()), loop_(parameters_) {
  for (const std::string& name : loop_.unnamed()) {
    warn(name + ": the spec has no names of channels; joints are taken in their order");
  }
  std::map<std::string, std::vector<std::size_t>> joints;
  for (std::size_t route = 0; route < loop_.routes().size(); ++route) {
    const Route& of = loop_.routes()[route];
    if (of.has_images()) {
      subscribe_to_images(route);
    } else {
      joints[of.topic].push_back(route);
    }
  }
  for (const auto& [topic, routes] : joints) {
    subscriptions_.push_back(create_subscription<sensor_msgs::msg::JointState>(
        topic, rclcpp::SensorDataQoS(),
        [this, of = routes](const sensor_msgs::msg::JointState& message) {
          on_joints(of, message);
        },
        in_own_group()));
  }
  commands_ = create_publisher<std_msgs::msg::Float64MultiArray>("commands", 1);
  const std::chrono::duration<double> period(1.0 / parameters_.rate_hz);
  timer_ = create_wall_timer(period, [this] { on_timer(); }, make_group());
}

Parameters PolicyNode::declare_parameters() {
  // ROS has no type for an empty list: no entry is one empty text.
  const std::vector<std::string> none{""};
  Parameters parameters;
  parameters.spec = declare_parameter("spec", parameters.spec);
  parameters.topics = declare_parameter("topics", none);
  parameters.joint_names = declare_parameter("joint_names", none);
  parameters.action = declare_parameter("action", parameters.action);
  parameters.rate_hz = declare_parameter("rate_hz", parameters.rate_hz);
  return parameters;
}

void PolicyNode::subscribe_to_images(std::size_t route) {
  using sensor_msgs::msg::CompressedImage;
  using sensor_msgs::msg::Image;
  const std::string& topic = loop_.routes()[route].topic;
  if (loop_.routes()[route].field == Field::kImage) {
    subscriptions_.push_back(create_subscription<Image>(
        topic, rclcpp::SensorDataQoS(),
        [this, route](const Image& message) { on_image(route, message); }, in_own_group()));
  } else {
    subscriptions_.push_back(create_subscription<CompressedImage>(
        topic, rclcpp::SensorDataQoS(),
        [this, route](const CompressedImage& message) { on_compressed(route, message); },
        in_own_group()));
  }
}

rclcpp::CallbackGroup::SharedPtr PolicyNode::make_group() {
  groups_.push_back(create_callback_group(rclcpp::CallbackGroupType::MutuallyExclusive));
  return groups_.back();
}

/// Each topic has a callback group: with a MultiThreadedExecutor no topic waits for another, nor
/// for the policy, and one thread at a time pushes the rows of a stream.
rclcpp::SubscriptionOptions PolicyNode::in_own_group() {
  rclcpp::SubscriptionOptions options;
  options.callback_group = make_group();
  return options;
}

void PolicyNode::on_joints(const std::vector<std::size_t>& routes,
                           const sensor_msgs::msg::JointState& message) {
  for (const std::size_t route : routes) {
    const std::vector<double>& values = field_of(message, loop_.routes()[route].field);
    if (values.empty()) continue;  // a driver may leave velocity and effort out
    warn(loop_.push_joints(route, nanoseconds(message.header.stamp), message.name, values));
  }
}

void PolicyNode::on_image(std::size_t route, const sensor_msgs::msg::Image& message) {
  warn(loop_.push_image(
      route, nanoseconds(message.header.stamp),
      {message.height, message.width, message.encoding, message.step, message.data}));
}

void PolicyNode::on_compressed(std::size_t route,
                               const sensor_msgs::msg::CompressedImage& message) {
  warn(loop_.push_compressed(route, nanoseconds(message.header.stamp), message.format,
                             message.data));
}

void PolicyNode::on_timer() {
  const PolicyLoop::Step step = loop_.step(now().nanoseconds());
  warn(step.problem);
  if (step.command.empty()) return;
  std_msgs::msg::Float64MultiArray command;
  command.data.assign(step.command.begin(), step.command.end());
  commands_->publish(command);
}

void PolicyNode::warn(const std::string& problem) {
  if (problem.empty()) return;
  RCLCPP_WARN_THROTTLE(get_logger(), *get_clock(), kThrottleMs, "%s", problem.c_str());
}

}  // namespace robocache_policy
