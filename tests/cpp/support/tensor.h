// An array that owns its memory, of any type and strides, on the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "robocache/tensor_view.h"

namespace robocache::testing {

/// Elements are numbered in row-major order whatever the strides. The memory is exactly as large as
/// the strides ask for, so that a sanitizer sees one element too far.
class Tensor {
 public:
  /// An optional argument that is absent.
  Tensor() = default;

  /// Contiguous, all zeros.
  Tensor(DataType type, const std::vector<std::int64_t>& shape);

  /// Strides in elements, negative ones and zeros too; `offset` elements are left in front.
  Tensor(DataType type, const std::vector<std::int64_t>& shape,
         const std::vector<std::int64_t>& strides, std::int64_t offset);

  /// Contiguous, with the elements given.
  Tensor(DataType type, const std::vector<std::int64_t>& shape,
         std::initializer_list<double> elements);

  bool present() const { return present_; }
  DataType type() const { return view_.dtype; }
  std::int64_t size() const { return size_; }
  std::vector<std::int64_t> shape() const;
  std::string text() const;  // "float32 [2,3] strides [3,1]"

  double get(std::int64_t index) const;
  void set(std::int64_t index, double x);
  std::int64_t get_int(std::int64_t index) const;  // int64 tensors
  void set_int(std::int64_t index, std::int64_t x);

  TensorView view();
  ConstTensorView view() const;

  /// Fills all memory, gaps between elements included.
  void fill_bytes(unsigned char byte);
  /// Whether the gaps still hold what fill_bytes left.
  bool has_only_gaps_of(unsigned char byte) const;
  /// Whether all memory does.
  bool is_untouched(unsigned char byte) const;
  /// Whether the elements [begin, end) do.
  bool is_untouched(std::int64_t begin, std::int64_t end, unsigned char byte) const;
  const std::vector<unsigned char>& bytes() const { return bytes_; }

 private:
  std::int64_t position(std::int64_t index) const;  // in elements, from the start of the memory

  bool present_ = false;
  std::int64_t size_ = 0;
  std::int64_t first_ = 0;  // position of element 0
  TensorView view_;         // without data: the memory may move
  std::vector<unsigned char> bytes_;
};

}  // namespace robocache::testing
