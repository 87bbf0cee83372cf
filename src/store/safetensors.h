// The header of a safetensors file: which tensors it holds, and where.
// The format: https://github.com/huggingface/safetensors#format
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "robocache/tensor_view.h"

namespace robocache::store {

/// A tensor of a file.
struct TensorEntry {
  std::string name;
  DataType dtype = DataType::kFloat32;
  std::vector<std::int64_t> shape;
  std::size_t offset = 0;  // in the file
};

/// The bytes of a file's header, the 8 of its length among them. Throws StoreError where they are
/// more than the file has, or than 100 MB, the format's own limit.
std::size_t header_bytes(const std::byte* file, std::size_t size, const std::string& path);

/// The tensors of a file of `size` bytes, in order of their names. Throws StoreError unless they
/// are of types that a store holds, each as large as its shape says, one after the other without
/// gap or overlap from the header's end to the file's, and each at a multiple of its element's
/// size.
std::vector<TensorEntry> parse_header(const std::byte* file, std::size_t size,
                                      const std::string& path);

}  // namespace robocache::store
