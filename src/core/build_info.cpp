#include "robocache/build_info.h"

#include <algorithm>

#include "align/method_names.h"
#include "core/cpu_target.h"
#include "robocache/version.h"

#if defined(ROBOCACHE_HAS_CUDA)
#include <cuda_runtime_api.h>

#include "align/backends.h"
#endif

namespace robocache {
namespace {

/// Converts "a b c" to a JSON list of strings.
std::string json_list(const std::string& words) {
  std::string list = "[";
  std::size_t begin = 0;
  while (begin < words.size()) {
    const std::size_t end = std::min(words.find(' ', begin), words.size());
    list += (list.size() > 1 ? ", \"" : "\"") + words.substr(begin, end - begin) + "\"";
    begin = end + 1;
  }
  return list + "]";
}

#if defined(ROBOCACHE_HAS_CUDA)
std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}
#endif

/// Joins the names of a list: "a b c".
template <typename Names>
std::string names(const Names& list) {
  std::string words;
  for (const auto& [name, value] : list) words += (words.empty() ? "" : " ") + std::string(name);
  return words;
}

}  // namespace

const std::string& build_info() {
#if defined(ROBOCACHE_HAS_CUDA)
  constexpr bool kHasCuda = true;
#else
  constexpr bool kHasCuda = false;
#endif
  static const std::string info =
      std::string("{\"version\": \"") + ROBOCACHE_VERSION +
      "\", \"cuda\": " + (kHasCuda ? "true" : "false") +
      ", \"cuda_version\": " + (kHasCuda ? "\"" ROBOCACHE_CUDA_VERSION "\"" : "null") +
      ", \"cuda_architectures\": " + json_list(kHasCuda ? ROBOCACHE_CUDA_ARCHITECTURES : "") +
      ", \"compiler\": \"" + ROBOCACHE_COMPILER +
      "\", \"cpu_targets\": " + json_list(ROBOCACHE_CPU_TARGETS) + ", \"cpu_target\": \"" +
      cpu_target_name(cpu_target()) + "\", \"methods\": " + json_list(names(kMethodNames)) +
      ", \"outsides\": " + json_list(names(kOutsideNames)) + "}";
  return info;
}

std::string cuda_problem(int device) {
#if !defined(ROBOCACHE_HAS_CUDA)
  (void)device;
  return "a build without CUDA; install nvcc 13.0 or newer and build again, or use backend "
         "'pytorch', which runs on any device";
#else
  int driver = 0;
  int runtime = 0;
  cudaError_t status = cudaDriverGetVersion(&driver);
  if (status == cudaSuccess) status = cudaRuntimeGetVersion(&runtime);
  if (status == cudaSuccess && driver == 0) return "no NVIDIA driver; install one (580 or newer)";
  if (status == cudaSuccess && driver / 1000 < runtime / 1000) {
    return "a driver for CUDA " + version_text(driver) + ", where this build needs one for CUDA " +
           version_text(runtime) + "; install driver 580 or newer, or use backend 'pytorch'";
  }
  int major = 0;
  int minor = 0;
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  }
  if (status == cudaSuccess) {
    status = cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device);
  }
  int current = 0;
  if (status == cudaSuccess) status = cudaGetDevice(&current);
  if (status == cudaSuccess) status = cudaSetDevice(device);
  const bool has_kernels = status == cudaSuccess && has_cuda_kernels();
  if (status == cudaSuccess) status = cudaSetDevice(current);
  if (status == cudaSuccess && !has_kernels) {
    return "a GPU of compute capability " + std::to_string(major) + "." + std::to_string(minor) +
           ", where this build has kernels for " ROBOCACHE_CUDA_ARCHITECTURES
           "; build again with it in CMAKE_CUDA_ARCHITECTURES, or use backend 'pytorch'";
  }
  if (status != cudaSuccess) {
    cudaGetLastError();
    return std::string("a CUDA error: ") + cudaGetErrorString(status);
  }
  return "";
#endif
}

}  // namespace robocache
