// The node: subscribes to the sensors, runs the policy at a rate, publishes its commands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <rclcpp/rclcpp.hpp>
#include <sensor_msgs/msg/compressed_image.hpp>
#include <sensor_msgs/msg/image.hpp>
#include <sensor_msgs/msg/joint_state.hpp>
#include <std_msgs/msg/float64_multi_array.hpp>

#include "robocache_policy/policy_loop.h"

namespace robocache_policy {

/// Runs a policy on windows of live sensors. README.md lists its parameters.
class PolicyNode : public rclcpp::Node {
 public:
  PolicyNode();

 private:
  Parameters declare_parameters();
  void subscribe_to_images(std::size_t route);
  rclcpp::CallbackGroup::SharedPtr make_group();
  rclcpp::SubscriptionOptions in_own_group();
  void on_joints(const std::vector<std::size_t>& routes,
                 const sensor_msgs::msg::JointState& message);
  void on_image(std::size_t route, const sensor_msgs::msg::Image& message);
  void on_compressed(std::size_t route, const sensor_msgs::msg::CompressedImage& message);
  void on_timer();
  void warn(const std::string& problem);

  const Parameters parameters_;
  PolicyLoop loop_;
  std::vector<rclcpp::SubscriptionBase::SharedPtr> subscriptions_;
  rclcpp::Publisher<std_msgs::msg::Float64MultiArray>::SharedPtr commands_;
  std::vector<rclcpp::CallbackGroup::SharedPtr> groups_;  // rclcpp keeps no group alive
  rclcpp::TimerBase::SharedPtr timer_;
};

}  // namespace robocache_policy
