// Counts what a LiveAligner asks of the machine once it is built: no memory, and no system call. A
// program of its own, since it takes the place of malloc, and forbids itself the system calls.
//
// Memory: malloc and its kin are this program's, and count. System calls: a child process first has
// the kernel kill it on any but exit_group (a seccomp filter), and then pushes, asks, undoes and
// resets; that it is killed by the filter at all is tried with another child.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "robocache/jpeg.h"
#include "robocache/live.h"

namespace {
std::atomic<long> allocations{0};
}  // namespace

// glibc's own, under the names that it keeps for those who take the others' place.
extern "C" {
void* __libc_malloc(std::size_t bytes);
void* __libc_calloc(std::size_t count, std::size_t bytes);
void* __libc_realloc(void* block, std::size_t bytes);
void* __libc_memalign(std::size_t alignment, std::size_t bytes);
void __libc_free(void* block);

void* malloc(std::size_t bytes) {
  ++allocations;
  return __libc_malloc(bytes);
}
void* calloc(std::size_t count, std::size_t bytes) {
  ++allocations;
  return __libc_calloc(count, bytes);
}
void* realloc(void* block, std::size_t bytes) {
  ++allocations;
  return __libc_realloc(block, bytes);
}
void* aligned_alloc(std::size_t alignment, std::size_t bytes) {
  ++allocations;
  return __libc_memalign(alignment, bytes);
}
int posix_memalign(void** block, std::size_t alignment, std::size_t bytes) {
  ++allocations;
  *block = __libc_memalign(alignment, bytes);
  return *block == nullptr ? ENOMEM : 0;
}
void free(void* block) {
  if (block != nullptr) ++allocations;
  __libc_free(block);
}
}

namespace {

using robocache::DataType;
using robocache::LiveAligner;
using robocache::LiveNow;
using robocache::LiveStatus;
using robocache::LiveStream;
using robocache::LiveTicket;
using robocache::Method;

constexpr std::int64_t kMs = 1'000'000;
constexpr int kNotKilled = 3;
constexpr std::int32_t kSide = 48;

/// Every kind of window: each method, images, copies, by row; and an action that is undone.
std::vector<LiveStream> streams() {
  std::vector<LiveStream> made;
  const auto add = [&](const char* name, Method method) -> LiveStream& {
    LiveStream& stream = made.emplace_back();
    stream.name = name;
    stream.method = method;
    stream.rate = 1000;
    stream.shape = {4};
    stream.offsets = {-10 * kMs, -5 * kMs - 1, 0};
    return stream;
  };
  add("linear", Method::kLinear).subtract = {1, 2, 3, 4};
  made.back().channels = {"a", "b", "c", "d"};
  add("previous", Method::kPrevious).out_dtype = DataType::kFloat64;
  add("nearest", Method::kNearest).out_dtype = DataType::kBFloat16;
  add("slerp", Method::kSlerpXyzw);
  add("angle", Method::kAngle);
  add("mean", Method::kMean).mean_window_ns = 4 * kMs;
  add("sum", Method::kSum).buffer_rows = 64;
  add("pose", Method::kLinear).shape = {6};
  LiveStream& row = add("row", Method::kLinear);
  row.timeline = robocache::Timeline::kRows;
  row.offsets = {-3, 0};
  LiveStream& flag = add("flag", Method::kPrevious);
  flag.dtype = flag.out_dtype = DataType::kInt64;
  LiveStream& image = add("image", Method::kLinear);
  image.dtype = DataType::kUInt8;
  image.shape = {8, 8, 3};
  image.channels_first = true;
  for (const char* name : {"camera", "encoded"}) {
    LiveStream& camera = add(name, Method::kPrevious);
    camera.dtype = camera.out_dtype = DataType::kUInt8;
    camera.shape = {kSide, kSide, 3};
    camera.rate = 30;
  }
  made.back().encoding = robocache::ImageEncoding{90, robocache::JpegSampling::k420};
  LiveStream resized = made.back();  // encoded, too
  resized.name = "resized";
  resized.out_dtype = DataType::kFloat32;
  resized.channels_first = true;
  resized.image.emplace();
  resized.image->height = resized.image->width = 20;
  resized.image->mode = robocache::ResizeMode::kPad;
  resized.image->center = 0.9;
  LiveStream depth = resized;
  depth.name = "depth";
  depth.dtype = DataType::kUInt16;
  depth.shape = {kSide, kSide};
  depth.encoding.reset();
  depth.channels_first = false;
  depth.image->filter = robocache::ResizeFilter::kMasked;
  made.push_back(resized);
  made.push_back(depth);
  LiveStream& relative = add("relative", Method::kAngle);
  relative.relative_to = "mean";
  relative.reference_columns = {3, -1, 1, 0};
  LiveStream& action = add("action", Method::kLinear);
  action.offsets = {0, 5 * kMs};
  action.relative_to = "angle";
  action.reference_columns = {0, 1, 2, 3};
  return made;
}

/// A transform of each kind, and what they are undone by.
robocache::LiveOptions options() {
  using robocache::RotationForm;
  robocache::LiveOptions made;
  made.encode_images = true;
  robocache::NormalizeTransform scale;
  scale.normalization["slerp"] = {{}, {0.5}, {2}};
  scale.normalization["action"] = {{4}, {1, 2, 3, 4}, {1, 2, 3, 4}};
  made.transforms = {
      robocache::RotationTransform{"slerp", RotationForm::kQuaternionXyzw, RotationForm::k6d},
      robocache::RelativePoseTransform{"pose", "pose", RotationForm::kRotationVector},
      robocache::DeltaTransform{"angle", "linear", robocache::DeltaDirection::kToDelta, 0.005},
      robocache::DeltaTransform{"action", "linear", robocache::DeltaDirection::kToAbsolute, {}},
      scale};
  return made;
}

/// JPEG files of several samplings, one cut short.
std::vector<std::vector<std::uint8_t>> frames() {
  using robocache::JpegSampling;
  std::vector<std::vector<std::uint8_t>> made;
  std::vector<std::uint8_t> pixels(std::size_t{3} * kSide * kSide);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::uint8_t>(i * i / 7);
  for (const JpegSampling sampling :
       {JpegSampling::k420, JpegSampling::k444, JpegSampling::k422, JpegSampling::k420}) {
    robocache::JpegEncoding encoding;
    encoding.sampling = sampling;
    static_cast<void>(robocache::JpegEncoder(encoding).encode(pixels.data(), kSide, kSide, 3,
                                                              3 * kSide, made.emplace_back()));
  }
  made.back().resize(made.back().size() / 2);
  return made;
}

struct Robot {
  LiveAligner aligner;
  std::vector<std::byte> out;
  std::vector<unsigned char> row = std::vector<unsigned char>(std::size_t{3} * kSide * kSide + 1);
  std::vector<float> answer = std::vector<float>(std::size_t{3} * kSide * kSide, 1);
  std::vector<float> undone = answer;
  std::vector<double> message = std::vector<double>(5);
  robocache::ChannelOrder order;
  std::vector<std::vector<std::uint8_t>> files = frames();
  std::int64_t camera = 0;
  long pushes = 0, queries = 0;
  LiveTicket first, last;
  robocache::LiveSelection some;

  Robot()
      : aligner(streams(), options()),
        out(aligner.output_bytes()),
        order(aligner.channel_order(0, {"d", "more", "c", "b", "a"})),
        some(aligner.select({"pose", "image", "relative"})) {
    camera = *aligner.find_stream("camera");
    push_files(-1);  // a decoder allocates at its first frames
  }

  /// Pushes a frame of each sampling, and one that is cut short; counts those that were taken.
  int push_files(std::int64_t time_ns) {
    int taken = 0;
    for (const std::vector<std::uint8_t>& file : files) {
      const LiveStatus status = aligner.push_jpeg(camera, time_ns, file.data(), file.size());
      if (status == LiveStatus::kOk) ++taken;
      ++pushes;
    }
    return taken;
  }

  /// Whether a query went well; the sum has lost its first rows.
  static bool is_fine(LiveStatus status) {
    return status == LiveStatus::kOk || status == LiveStatus::kRowsLost;
  }

  /// Some hundred rows of each stream, some late, repeated, early, far in the future, of a wrong
  /// size, too many; a query now and then. Whether every status was as it should be.
  bool go() {
    bool is_good = true;
    for (std::int64_t ms = 0; ms < 700; ++ms) {
      for (std::int64_t i = 0; i < static_cast<std::int64_t>(aligner.streams().size()); ++i) {
        const LiveStream& stream = aligner.streams()[static_cast<std::size_t>(i)];
        std::size_t bytes = static_cast<std::size_t>(robocache::size_of(stream.dtype));
        for (const std::int64_t size : stream.shape) bytes *= static_cast<std::size_t>(size);
        std::int64_t time = ms % 7 == 3 ? ms - 3 : ms % 11 == 5 ? ms + 2 : ms;
        if (ms % 50 == 49) time = ms % 100 == 99 ? 0 : 1'000'000'000;
        static_cast<void>(
            i == 0 && ms % 2 == 0
                ? aligner.push(order, time * kMs, message.data(), ms % 60 == 58 ? 4 : 5)
                : aligner.push(i, time * kMs, row.data(), ms % 60 == 59 ? bytes + 1 : bytes));
        ++pushes;
      }
      if (ms % 30 == 0) is_good = is_good && push_files(ms * kMs) == 3;
      if (ms >= 300 && ms % 5 != 0) continue;  // the rings are full by then
      if (ms > 0 && ms < 290) continue;
      const robocache::LiveResult made = aligner.query(LiveNow::at(ms * kMs), out.data());
      is_good = is_good && is_fine(made);
      if (ms == 0) first = made.ticket;
      last = made.ticket;
      is_good = is_good && aligner.status(0) == LiveStatus::kOk && aligner.ready();
      for (const robocache::LiveKey& key : aligner.keys()) {
        for (const LiveTicket& ticket : {first, last}) {
          static_cast<void>(aligner.undo(ticket, key, answer.data(), 1, undone.data()));
        }
      }
      aligner.stats(0);
      is_good = is_good && is_fine(aligner.query(LiveNow::newest_of(0), out.data()));
      queries += 2;
      if (ms == 500) aligner.reset();
    }
    return is_good && aligner.stats(0).overwritten > 0 && aligner.stats(0).late > 0 &&
           aligner.stats(0).too_late > 0 && aligner.stats(0).future > 0;
  }
};

/// From here on the kernel kills this process at any system call but exit_group; false if it
/// can't.
bool forbid_system_calls() {
  sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter{sizeof program / sizeof program[0], program};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

/// Runs `work` in a child process that may make no system calls; returns its exit status, or minus
/// the signal that killed it.
template <typename Work>
int run_without_system_calls(const Work& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (!forbid_system_calls()) _exit(kNotKilled);
    _exit(work() ? 0 : 1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

int fail(const char* what) {
  std::printf("FAILED: %s\n", what);
  return 1;
}

}  // namespace

int main() {
  Robot robot;
  Robot other;
  const long before = allocations.load();
  const bool is_good = robot.go();
  const long during = allocations.load() - before;
  if (!is_good) return fail("a status or a count is not as it should be");
  std::printf("%ld allocations in %ld pushes and %ld queries\n", during, robot.pushes,
              robot.queries);
  if (during != 0) return fail("memory was allocated or freed");
  if (run_without_system_calls([] { return getppid() != 0; }) != -SIGSYS) {
    std::printf("skipped, as this machine does not let a process forbid itself system calls\n");
    return 0;
  }
  const int status = run_without_system_calls([&] { return other.go(); });
  std::printf("without system calls: %s\n", status == 0 ? "done" : "ended");
  if (status != 0) return fail("a system call was made");
  return 0;
}
