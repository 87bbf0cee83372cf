// Code that several compilers or instruction sets share lives in `namespace robocache::<target>`,
// where <target> is `cuda` or the name of a CPU instruction set (ROBOCACHE_CPU_TARGET, given by the
// build). The same source compiled twice thus defines different symbols, and the linker cannot hand
// an AVX-512 copy of a function to a CPU that lacks it. Code that is compiled several times uses no
// templates of the standard library, for the same reason.
#pragma once

#if defined(__CUDACC__)
#define ROBOCACHE_TARGET cuda
#define ROBOCACHE_HOST_DEVICE __host__ __device__ __forceinline__
#define ROBOCACHE_HOST_DEVICE_CALLED __host__ __device__ __noinline__
#elif defined(ROBOCACHE_CPU_TARGET)
#define ROBOCACHE_TARGET ROBOCACHE_CPU_TARGET
#define ROBOCACHE_HOST_DEVICE inline __attribute__((always_inline))
#define ROBOCACHE_HOST_DEVICE_CALLED inline  // large, and called from many places
#endif

// For what is outside such a namespace, and so simple that no compiler leaves a copy of it behind.
#if defined(__CUDACC__)
#define ROBOCACHE_CONSTEXPR __host__ __device__ constexpr
#define ROBOCACHE_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#else
#define ROBOCACHE_CONSTEXPR __attribute__((always_inline)) constexpr
#define ROBOCACHE_HOST_DEVICE_INLINE inline __attribute__((always_inline))
#endif
