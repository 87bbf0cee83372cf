#include "live/pinned_slots.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/check.h"
#include "robocache/build_info.h"
#include "robocache/error.h"

#if defined(ROBOCACHE_HAS_CUDA)
#include <cuda_runtime_api.h>

#include "core/cuda_error.h"
#endif

namespace robocache {

#if defined(ROBOCACHE_HAS_CUDA)

struct PinnedSlots::Slots {
  explicit Slots(std::size_t size) : bytes(size) {}
  Slots(const Slots&) = delete;
  Slots& operator=(const Slots&) = delete;
  ~Slots() {
    // A pending copy still reads the buffers: wait. Its errors have no caller to report to.
    for (cudaEvent_t event : events) {
      cudaEventSynchronize(event);
      cudaEventDestroy(event);
    }
    for (std::byte* const buffer : buffers) cudaFreeHost(buffer);
    cudaGetLastError();
  }

  void add() {
    void* buffer = nullptr;
    check_cuda(cudaHostAlloc(&buffer, bytes, cudaHostAllocDefault), "cuda_slots");
    std::memset(buffer, 0, bytes);
    buffers.push_back(static_cast<std::byte*>(buffer));
    cudaEvent_t event = nullptr;
    check_cuda(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cuda_slots");
    events.push_back(event);
  }

  std::size_t bytes;
  std::vector<std::byte*> buffers;
  std::vector<cudaEvent_t> events;
  std::size_t turn = 0;
};

PinnedSlots::PinnedSlots(int count, std::size_t bytes) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) cudaGetLastError();
  const std::string problem = cuda_problem(device);
  if (!problem.empty()) {
    throw DeviceError("cuda_slots: expected 0, got " + std::to_string(count) + " with " + problem);
  }
  slots_ = std::make_unique<Slots>(bytes);
  slots_->buffers.reserve(static_cast<std::size_t>(count));
  slots_->events.reserve(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) slots_->add();
}

std::byte* PinnedSlots::free_slot() noexcept {
  // cudaEventQuery reports success for an event that was never recorded.
  const cudaError_t status = cudaEventQuery(slots_->events[slots_->turn]);
  if (status == cudaSuccess) return slots_->buffers[slots_->turn];
  cudaGetLastError();
  return nullptr;
}

bool PinnedSlots::wait() noexcept {
  if (cudaEventSynchronize(slots_->events[slots_->turn]) == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

bool PinnedSlots::copy_to(void* device_out, const std::vector<Selection::Range>& ranges,
                          CUstream_st* stream) noexcept {
  Slots& slots = *slots_;
  cudaError_t copied = cudaSuccess;
  for (const Selection::Range& range : ranges) {
    if (copied != cudaSuccess) break;
    copied = cudaMemcpyAsync(static_cast<std::byte*>(device_out) + range.begin,
                             slots.buffers[slots.turn] + range.begin, range.bytes,
                             cudaMemcpyHostToDevice, stream);
  }
  const cudaError_t recorded =
      copied == cudaSuccess ? cudaEventRecord(slots.events[slots.turn], stream) : copied;
  slots.turn = slots.turn + 1 == slots.buffers.size() ? 0 : slots.turn + 1;
  if (recorded == cudaSuccess) return true;
  cudaGetLastError();
  return false;
}

#else

struct PinnedSlots::Slots {};

PinnedSlots::PinnedSlots(int count, std::size_t) {
  throw DeviceError("cuda_slots: expected 0, got " + std::to_string(count) + " with " +
                    cuda_problem(0));
}
std::byte* PinnedSlots::free_slot() noexcept { return nullptr; }
bool PinnedSlots::wait() noexcept { return false; }
bool PinnedSlots::copy_to(void*, const std::vector<Selection::Range>&, CUstream_st*) noexcept {
  return false;
}

#endif

PinnedSlots::~PinnedSlots() = default;

}  // namespace robocache
