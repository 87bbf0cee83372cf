// A stand-in for the part of rclcpp that the example node uses: the same signatures, no middleware.
// A test sets parameters and the clock, delivers messages and runs timers.
#pragma once

#include <any>
#include <chrono>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace rclcpp {

struct CallbackGroup {
  using SharedPtr = std::shared_ptr<CallbackGroup>;
};

/// What tests set, and what nodes did.
struct World {
  std::map<std::string, std::any> parameters;
  std::int64_t now_ns = 0;
  std::map<std::string, std::function<void(const void*)>> subscriptions;  // by topic
  std::vector<std::weak_ptr<CallbackGroup>> groups;  // callbacks of a group that is gone never run
  std::map<std::string, std::vector<std::any>> published;        // by topic
  std::vector<std::pair<double, std::function<void()>>> timers;  // periods in seconds
  std::vector<std::string> warnings;
};

inline World& world() {
  static World world;
  return world;
}

enum class CallbackGroupType { MutuallyExclusive, Reentrant };

struct SubscriptionOptions {
  CallbackGroup::SharedPtr callback_group;
};

struct SensorDataQoS {};

struct SubscriptionBase {
  using SharedPtr = std::shared_ptr<SubscriptionBase>;
};

template <typename Message>
struct Subscription : SubscriptionBase {
  using SharedPtr = std::shared_ptr<Subscription>;
};

template <typename Message>
struct Publisher {
  using SharedPtr = std::shared_ptr<Publisher>;
  void publish(const Message& message) { world().published[topic].emplace_back(message); }
  std::string topic;
};

struct TimerBase {
  using SharedPtr = std::shared_ptr<TimerBase>;
};

struct Time {
  std::int64_t nanoseconds() const { return value; }
  std::int64_t value;
};

struct Clock {
  using SharedPtr = std::shared_ptr<Clock>;
};

struct Logger {};

class Node {
 public:
  explicit Node(const std::string& name) : name_(name) {}

  template <typename Value>
  Value declare_parameter(const std::string& name, const Value& value) {
    const auto given = world().parameters.find(name);
    return given == world().parameters.end() ? value : std::any_cast<Value>(given->second);
  }

  template <typename Message, typename Callback>
  typename Subscription<Message>::SharedPtr create_subscription(
      const std::string& topic, const SensorDataQoS&, Callback callback,
      const SubscriptionOptions& options) {
    world().subscriptions[topic] = [callback](const void* message) {
      callback(*static_cast<const Message*>(message));
    };
    world().groups.push_back(options.callback_group);
    return std::make_shared<Subscription<Message>>();
  }

  template <typename Message>
  typename Publisher<Message>::SharedPtr create_publisher(const std::string& topic, int) {
    auto publisher = std::make_shared<Publisher<Message>>();
    publisher->topic = topic;
    return publisher;
  }

  CallbackGroup::SharedPtr create_callback_group(CallbackGroupType) {
    return std::make_shared<CallbackGroup>();
  }

  template <typename Duration, typename Callback>
  TimerBase::SharedPtr create_wall_timer(Duration period, Callback callback,
                                         CallbackGroup::SharedPtr group) {
    world().groups.push_back(group);
    world().timers.emplace_back(std::chrono::duration<double>(period).count(), callback);
    return std::make_shared<TimerBase>();
  }

  Time now() const { return {world().now_ns}; }
  Logger get_logger() const { return {}; }
  Clock::SharedPtr get_clock() const { return std::make_shared<Clock>(); }

 private:
  std::string name_;
};

namespace executors {

struct MultiThreadedExecutor {
  void add_node(const std::shared_ptr<Node>&) {}
  void spin() {}
};

}  // namespace executors

inline void init(int, char**) {}
inline void shutdown() {}

[[gnu::format(printf, 1, 2)]] inline void note_warning(const char* format, ...) {
  char text[1024];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  world().warnings.emplace_back(text);
}

}  // namespace rclcpp

#define RCLCPP_WARN_THROTTLE(logger, clock, milliseconds, ...)                           \
  (static_cast<void>(logger), static_cast<void>(clock), static_cast<void>(milliseconds), \
   rclcpp::note_warning(__VA_ARGS__))
