// Error handling of libjpeg-turbo, which reports errors by a jump, and the limit of scans.
#pragma once

#include <csetjmp>
#include <cstdio>  // jpeglib.h uses FILE

extern "C" {
#include <jpeglib.h>
}

#if !defined(LIBJPEG_TURBO_VERSION_NUMBER) || LIBJPEG_TURBO_VERSION_NUMBER < 2001000
#error "robocache needs libjpeg-turbo 2.1 or newer: its bytes are those that the CUDA kernels give"
#endif

namespace robocache {

/// An error manager that jumps back to the caller, counts warnings and prints nothing.
///
///     if (setjmp(errors.jump) != 0) return ...;  // an error
///
/// No object with a destructor may be constructed between setjmp and calls of libjpeg-turbo.
struct TurboErrors {
  jpeg_error_mgr base;
  std::jmp_buf jump;

  jpeg_error_mgr* reset() {
    jpeg_std_error(&base);
    base.error_exit = [](j_common_ptr info) {
      std::longjmp(reinterpret_cast<TurboErrors*>(info->err)->jump, 1);
    };
    base.output_message = [](j_common_ptr) {};
    return &base;
  }
};

/// A progress monitor that makes more scans than any encoder writes an error. A small file may have
/// many, of which each costs the time of the whole image.
struct ScanLimit {
  jpeg_progress_mgr base{};

  jpeg_progress_mgr* monitor() {
    base.progress_monitor = [](j_common_ptr info) {
      constexpr int kMostScans = 500;
      const auto* const decoder = reinterpret_cast<j_decompress_ptr>(info);
      if (decoder->input_scan_number > kMostScans) info->err->error_exit(info);
    };
    return &base;
  }
};

}  // namespace robocache
