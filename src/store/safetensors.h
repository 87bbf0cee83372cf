// The header of a safetensors file: the names, types, shapes and offsets of its tensors.
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

/// The size of a file's header in bytes, with the 8 bytes of its length. Throws StoreError if it
/// exceeds the file, or 100 MB, the limit of the format.
std::size_t header_bytes(const std::byte* file, std::size_t size, const std::string& path);

/// The tensors of a file of `size` bytes, in order of their names. Throws StoreError unless all
/// have types that a store supports, sizes that match their shapes, and offsets that are multiples
/// of their element sizes, and unless they fill the file from the header's end without gap or
/// overlap.
std::vector<TensorEntry> parse_header(const std::byte* file, std::size_t size,
                                      const std::string& path);

}  // namespace robocache::store
