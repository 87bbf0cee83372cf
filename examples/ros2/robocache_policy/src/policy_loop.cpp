#include "robocache_policy/policy_loop.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "robocache/error.h"
#include "robocache_policy/policy.h"

namespace robocache_policy {
namespace {

using robocache::LiveStatus;
using robocache::LiveStream;

constexpr std::size_t kMaxOrders = 16;  // lists of names of one topic

std::string problem_of(const Route& route, LiveStatus status) {
  if (status == LiveStatus::kOk) return "";
  return route.topic + ": " + robocache::name_of(status);
}

}  // namespace

PolicyLoop::PolicyLoop(const Parameters& parameters)
    : aligner_(robocache::read_policy_spec(parameters.spec)),
      routes_(find_routes(aligner_, parameters.topics)),
      action_(aligner_.find_key(parameters.action)),
      windows_(aligner_.output_bytes()),
      orders_(routes_.size()),
      pixels_(routes_.size()) {
  for (const auto& [channel, joint] : parse_pairs("joint_names", parameters.joint_names)) {
    channels_[joint] = channel;
  }
  if (!(parameters.rate_hz > 0)) {
    throw std::invalid_argument("rate_hz: expected a rate above 0, got " +
                                std::to_string(parameters.rate_hz));
  }
  if (action_ == nullptr) {
    throw std::invalid_argument("action: expected a key of the batch, got '" + parameters.action +
                                "'");
  }
}

std::vector<std::string> PolicyLoop::unnamed() const {
  std::vector<std::string> names;
  for (const Route& route : routes_) {
    const LiveStream& stream = stream_of(route);
    if (!route.has_images() && stream.channels.empty()) names.push_back(stream.name);
  }
  return names;
}

std::string PolicyLoop::push_joints(std::size_t route, std::int64_t stamp_ns,
                                    const std::vector<std::string>& names,
                                    const std::vector<double>& values) {
  const Route& of = routes_[route];
  if (stream_of(of).channels.empty()) return push_unnamed(of, stamp_ns, values);
  const Order& found = order_of(route, names);
  if (!found.order) return found.problem;
  return problem_of(of, aligner_.push(*found.order, stamp_ns, values.data(), values.size()));
}

/// Pushes numbers in the order of the message, as the type of the stream.
std::string PolicyLoop::push_unnamed(const Route& route, std::int64_t stamp_ns,
                                     const std::vector<double>& values) {
  const auto push = [&](const auto& numbers) {
    using Number = typename std::decay_t<decltype(numbers)>::value_type;
    return problem_of(
        route, aligner_.push<Number>(route.stream, stamp_ns, numbers.data(), numbers.size()));
  };
  if (stream_of(route).dtype == robocache::DataType::kFloat64) return push(values);
  return push(std::vector<float>(values.begin(), values.end()));
}

const LiveStream& PolicyLoop::stream_of(const Route& route) const {
  return aligner_.streams()[static_cast<std::size_t>(route.stream)];
}

const PolicyLoop::Order& PolicyLoop::order_of(std::size_t route,
                                              const std::vector<std::string>& names) {
  std::map<std::vector<std::string>, Order>& orders = orders_[route];
  const auto known = orders.find(names);
  if (known != orders.end()) return known->second;
  if (orders.size() >= kMaxOrders) orders.clear();
  return orders.emplace(names, find_order(routes_[route], names)).first->second;
}

PolicyLoop::Order PolicyLoop::find_order(const Route& route,
                                         const std::vector<std::string>& names) const {
  const LiveStream& stream = stream_of(route);
  std::vector<std::string> renamed;
  bool is_other = true;
  for (const std::string& name : names) {
    const auto channel = channels_.find(name);
    renamed.push_back(channel == channels_.end() ? name : channel->second);
    const auto& all = stream.channels;
    is_other = is_other && std::find(all.begin(), all.end(), renamed.back()) == all.end();
  }
  if (is_other) return {};
  try {
    return {aligner_.channel_order(route.stream, renamed), ""};
  } catch (const robocache::ValueError& error) {
    return {std::nullopt, route.topic + ": " + error.what()};
  }
}

std::string PolicyLoop::push_image(std::size_t route, std::int64_t stamp_ns,
                                   const ImageView& image) {
  const Route& of = routes_[route];
  const std::vector<std::int64_t>& shape = stream_of(of).shape;
  const bool is_color = image.encoding == "rgb8" || image.encoding == "bgr8";
  const std::int64_t colors = is_color ? 3 : image.encoding == "mono8" ? 1 : 0;
  const std::int64_t row = image.width * colors;
  const bool fits = image.height == shape[0] && image.width == shape[1] && colors == shape[2] &&
                    image.step >= row &&
                    static_cast<std::int64_t>(image.data.size()) >= image.height * image.step;
  if (!fits) {
    return of.topic + ": expected " + std::to_string(shape[0]) + " x " + std::to_string(shape[1]) +
           " pixels of " + (shape[2] == 1 ? "mono8" : "rgb8 or bgr8") + ", as recorded, got " +
           std::to_string(image.height) + " x " + std::to_string(image.width) + " of " +
           image.encoding;
  }
  std::vector<std::uint8_t>& pixels = pixels_[route];
  pixels.resize(static_cast<std::size_t>(image.height * row));
  for (std::int64_t y = 0; y < image.height; ++y) {
    std::uint8_t* const out = pixels.data() + y * row;
    std::memcpy(out, image.data.data() + y * image.step, static_cast<std::size_t>(row));
    if (image.encoding != "bgr8") continue;
    for (std::int64_t x = 0; x < row; x += 3) std::swap(out[x], out[x + 2]);
  }
  return problem_of(of, aligner_.push(of.stream, stamp_ns, pixels.data(), pixels.size()));
}

std::string PolicyLoop::push_compressed(std::size_t route, std::int64_t stamp_ns,
                                        const std::string& format,
                                        const std::vector<std::uint8_t>& data) {
  const Route& of = routes_[route];
  const robocache::LiveStatus status =
      aligner_.push_jpeg(of.stream, stamp_ns, data.data(), data.size());
  if (status == robocache::LiveStatus::kOk) return "";
  const std::vector<std::int64_t>& shape = stream_of(of).shape;
  return of.topic + ": expected JPEG of " + std::to_string(shape[0]) + " x " +
         std::to_string(shape[1]) + " pixels, as recorded, got " + name_of(status) + " (format '" +
         format + "')";
}

PolicyLoop::Step PolicyLoop::step(std::int64_t now_ns) {
  const robocache::LiveResult queried =
      aligner_.query(robocache::LiveNow::at(now_ns), windows_.data());
  if (queried.status != LiveStatus::kOk) return {{}, problem_of_streams()};
  const std::vector<float> actions = run_policy(aligner_, windows_.data());
  if (actions.empty()) return {};
  std::int64_t channels = 1;
  for (const std::int64_t size : action_->aligned) channels *= size;
  std::vector<float> command(static_cast<std::size_t>(channels));
  const LiveStatus undone =
      aligner_.undo(queried.ticket, *action_, actions.data(), 1, command.data());
  if (undone != LiveStatus::kOk) {
    return {{}, std::string("no command: undo: ") + robocache::name_of(undone)};
  }
  return {std::move(command), ""};
}

std::string PolicyLoop::problem_of_streams() const {
  std::string problems;
  for (const Route& route : routes_) {
    const LiveStatus status = aligner_.status(route.stream);
    if (status == LiveStatus::kOk) continue;
    problems += problems.empty() ? "no command: " : ", ";
    problems += stream_of(route).name + ": " + robocache::name_of(status);
  }
  return problems;
}

}  // namespace robocache_policy
