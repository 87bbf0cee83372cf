#include "support/tensor.h"

#include <algorithm>
#include <cstddef>

#include "support/numbers.h"

namespace robocache::testing {
namespace {

std::vector<std::int64_t> contiguous_strides(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size());
  std::int64_t stride = 1;
  for (std::size_t axis = shape.size(); axis-- > 0;) {
    strides[axis] = stride;
    stride *= shape[axis];
  }
  return strides;
}

std::string list_text(const std::int64_t* numbers, int count) {
  std::string text = "[";
  for (int i = 0; i < count; ++i) text += (i > 0 ? "," : "") + std::to_string(numbers[i]);
  return text + "]";
}

}  // namespace

Tensor::Tensor(DataType type, const std::vector<std::int64_t>& shape)
    : Tensor(type, shape, contiguous_strides(shape), 0) {}

Tensor::Tensor(DataType type, const std::vector<std::int64_t>& shape,
               const std::vector<std::int64_t>& strides, std::int64_t offset)
    : present_(true), size_(1), first_(offset) {
  view_.dtype = type;
  view_.rank = static_cast<int>(shape.size());
  std::int64_t last = offset;  // the position furthest from the start
  for (std::size_t axis = 0; axis < shape.size(); ++axis) {
    view_.shape[axis] = shape[axis];
    view_.strides[axis] = strides[axis];
    size_ *= shape[axis];
    const std::int64_t reach = std::max<std::int64_t>(0, shape[axis] - 1) * strides[axis];
    if (reach < 0) first_ -= reach;
    last += reach < 0 ? -reach : reach;
  }
  bytes_.resize(size_ == 0 ? 0 : static_cast<std::size_t>((last + 1) * size_of(type)));
}

Tensor::Tensor(DataType type, const std::vector<std::int64_t>& shape,
               std::initializer_list<double> elements)
    : Tensor(type, shape) {
  std::int64_t index = 0;
  for (const double element : elements) set(index++, element);
}

std::vector<std::int64_t> Tensor::shape() const { return {view_.shape, view_.shape + view_.rank}; }

std::string Tensor::text() const {
  if (!present_) return "none";
  return std::string(name_of(view_.dtype)) + " " + list_text(view_.shape, view_.rank) +
         " strides " + list_text(view_.strides, view_.rank) + " from " + std::to_string(first_);
}

std::int64_t Tensor::position(std::int64_t index) const {
  std::int64_t position = first_;
  for (int axis = view_.rank - 1; axis >= 0; --axis) {
    position += index % view_.shape[axis] * view_.strides[axis];
    index /= view_.shape[axis];
  }
  return position;
}

double Tensor::get(std::int64_t index) const {
  return load_number(bytes_.data(), view_.dtype, position(index));
}

void Tensor::set(std::int64_t index, double x) {
  store_number(bytes_.data(), view_.dtype, position(index), x);
}

std::int64_t Tensor::get_int(std::int64_t index) const {
  return reinterpret_cast<const std::int64_t*>(bytes_.data())[position(index)];
}

void Tensor::set_int(std::int64_t index, std::int64_t x) {
  reinterpret_cast<std::int64_t*>(bytes_.data())[position(index)] = x;
}

TensorView Tensor::view() {
  TensorView view = view_;
  if (size_ > 0) view.data = bytes_.data() + first_ * size_of(view_.dtype);
  return view;
}

ConstTensorView Tensor::view() const { return const_cast<Tensor*>(this)->view(); }

void Tensor::fill_bytes(unsigned char byte) { std::fill(bytes_.begin(), bytes_.end(), byte); }

bool Tensor::has_only_gaps_of(unsigned char byte) const {
  std::vector<unsigned char> rest = bytes_;
  const std::int64_t width = size_of(view_.dtype);
  for (std::int64_t index = 0; index < size_; ++index) {
    std::fill_n(rest.begin() + position(index) * width, width, byte);
  }
  return std::all_of(rest.begin(), rest.end(), [=](unsigned char x) { return x == byte; });
}

bool Tensor::is_untouched(unsigned char byte) const {
  return std::all_of(bytes_.begin(), bytes_.end(), [=](unsigned char x) { return x == byte; });
}

bool Tensor::is_untouched(std::int64_t begin, std::int64_t end, unsigned char byte) const {
  const std::int64_t width = size_of(view_.dtype);
  for (std::int64_t index = begin; index < end; ++index) {
    const auto first = bytes_.begin() + position(index) * width;
    if (std::any_of(first, first + width, [=](unsigned char x) { return x != byte; })) return false;
  }
  return true;
}

}  // namespace robocache::testing
