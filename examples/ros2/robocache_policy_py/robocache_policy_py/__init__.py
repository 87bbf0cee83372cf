"""A ROS 2 node that runs a policy on RoboCache's windows of live sensors."""
