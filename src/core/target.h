// Code that several compilers or instruction sets share lives in `namespace robocache::<target>`,
// where <target> is `cuda` or the name of a CPU instruction set (ROBOCACHE_CPU_TARGET, which the
// build defines). So a source that is compiled twice defines different symbols, and the linker
// cannot choose an AVX-512 copy of a function for a CPU without AVX-512. For the same reason, such
// code uses no templates of the standard library.
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

// For functions outside such a namespace. They are always inlined, so that no object file has a
// copy of them.
#if defined(__CUDACC__)
#define ROBOCACHE_CONSTEXPR __host__ __device__ constexpr
#define ROBOCACHE_HOST_DEVICE_INLINE __host__ __device__ __forceinline__
#else
#define ROBOCACHE_CONSTEXPR __attribute__((always_inline)) constexpr
#define ROBOCACHE_HOST_DEVICE_INLINE inline __attribute__((always_inline))
#endif

// Unrolls the next loop on the device, whose registers can't be indexed at run time. In host code,
// nvcc would pass the pragma on to the host compiler, which does not know it.
#if defined(__CUDA_ARCH__)
#define ROBOCACHE_UNROLL _Pragma("unroll")
#define ROBOCACHE_NO_UNROLL _Pragma("unroll 1")
#else
#define ROBOCACHE_UNROLL
#define ROBOCACHE_NO_UNROLL
#endif
