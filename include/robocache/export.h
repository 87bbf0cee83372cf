// The macro that marks what librobocache exports.
#pragma once

// The library is compiled with hidden visibility. A shared build (and whoever links it, through the
// CMake target) defines ROBOCACHE_SHARED; a static build stays hidden, so that a shared library
// that carries it, such as the PyTorch extension, exports nothing of it.
#if defined(ROBOCACHE_SHARED)
#define ROBOCACHE_API __attribute__((visibility("default")))
#else
#define ROBOCACHE_API
#endif
