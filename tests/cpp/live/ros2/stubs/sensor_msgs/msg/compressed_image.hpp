// A stand-in for the header that ROS generates.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <std_msgs/msg/header.hpp>

namespace sensor_msgs::msg {

struct CompressedImage {
  std_msgs::msg::Header header;
  std::string format;
  std::vector<std::uint8_t> data;
};

}  // namespace sensor_msgs::msg
