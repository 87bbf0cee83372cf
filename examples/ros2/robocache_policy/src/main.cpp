#include <memory>

#include "robocache_policy/policy_node.h"

int main(int argc, char** argv) {
  rclcpp::init(argc, argv);
  rclcpp::executors::MultiThreadedExecutor executor;
  const auto node = std::make_shared<robocache_policy::PolicyNode>();
  executor.add_node(node);
  executor.spin();
  rclcpp::shutdown();
}
