// A stand-in for the header that ROS generates.
#pragma once

#include <string>
#include <vector>

#include <std_msgs/msg/header.hpp>

namespace sensor_msgs::msg {

struct JointState {
  std_msgs::msg::Header header;
  std::vector<std::string> name;
  std::vector<double> position, velocity, effort;
};

}  // namespace sensor_msgs::msg
