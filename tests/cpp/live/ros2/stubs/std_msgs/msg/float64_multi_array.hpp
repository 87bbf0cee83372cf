// A stand-in for the header that ROS generates.
#pragma once

#include <vector>

namespace std_msgs::msg {

struct Float64MultiArray {
  std::vector<double> data;
};

}  // namespace std_msgs::msg
