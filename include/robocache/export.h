// The macro that marks the symbols that librobocache exports.
#pragma once

// The library is compiled with hidden visibility. A shared build defines ROBOCACHE_SHARED, and so
// does every target that links it, through the CMake target. In a static build all symbols stay
// hidden, so that a shared library that contains it, such as the PyTorch extension, does not export
// them.
#if defined(ROBOCACHE_SHARED)
#define ROBOCACHE_API __attribute__((visibility("default")))
#else
#define ROBOCACHE_API
#endif
