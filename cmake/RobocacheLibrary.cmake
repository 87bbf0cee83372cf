# librobocache: the core, its CPU backend once per instruction set, and the CUDA backend.

configure_file("${CMAKE_CURRENT_LIST_DIR}/version.h.in"
               "${PROJECT_BINARY_DIR}/include/robocache/version.h" @ONLY)

# First, and the longest before the others: on few cores nothing then waits for them at the end.
set(robocache_cuda_sources
    src/jpeg/decode_cuda.cu
    src/image/draw_cuda.cu
    src/image/process_cuda.cu
    src/loader/batch_cuda.cu
    src/align/align_cuda.cu
    src/align/align_wide_cuda.cu
    src/align/align_backward_cuda.cu
    src/align/narrow_plan.cpp
    src/points/sample_cuda.cu
    src/transform/transform_cuda.cu
    src/voxel/sort_cuda.cu
    src/voxel/voxelize_cuda.cu
    src/voxel/voxelize_reduce_cuda.cu
    src/voxel/voxelize_sparse_cuda.cu)
if(NOT robocache_has_cuda)
  set(robocache_cuda_sources)
endif()
# nvcc puts a hash of the source's absolute path into names within anonymous namespaces, also those
# of kernels. With this option, which its help does not list, it is a hash of the relative path.
foreach(source IN LISTS robocache_cuda_sources)
  if(source MATCHES "\\.cu$")
    set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS
                                                  "-Xcudafe=--orig_src_path_name=${source}")
  endif()
endforeach()

add_library(
  robocache
  ${robocache_cuda_sources}
  src/core/build_info.cpp
  src/core/cpu_target.cpp
  src/core/error.cpp
  src/core/execution.cpp
  src/core/tensor_view.cpp
  src/align/align.cpp
  src/align/align_backward.cpp
  src/align/align_backward_cpu.cpp
  src/align/align_cpu.cpp
  src/align/checks.cpp
  src/align/planner.cpp
  src/image/augment.cpp
  src/image/checks.cpp
  src/image/images.cpp
  src/image/process_cpu.cpp
  src/image/spec.cpp
  src/jpeg/decode_cpu.cpp
  src/jpeg/decoder.cpp
  src/jpeg/encoder.cpp
  src/jpeg/frame_table.cpp
  src/jpeg/frame_walk.cpp
  src/jpeg/frames.cpp
  src/jpeg/index.cpp
  src/jpeg/parse.cpp
  src/jpeg/quality.cpp
  src/jpeg/rewrite.cpp
  src/jpeg/scan_walker.cpp
  src/jpeg/tables.cpp
  src/jpeg/turbo_memory.cpp
  src/live/batch_keys.cpp
  src/live/buffer_rows.cpp
  src/live/constant_outputs.cpp
  src/live/image_rows.cpp
  src/live/jpeg_rows.cpp
  src/live/kept_queries.cpp
  src/live/key_inverses.cpp
  src/live/live_aligner.cpp
  src/live/live_batch.cpp
  src/live/live_windows.cpp
  src/live/ordered_rows.cpp
  src/live/output_layout.cpp
  src/live/pinned_slots.cpp
  src/live/row_buffer.cpp
  src/live/row_transform.cpp
  src/live/selection.cpp
  src/live/spec.cpp
  src/live/spec_transforms.cpp
  src/live/stream_status.cpp
  src/live/transform_chain.cpp
  src/live/undo.cpp
  src/loader/batch.cpp
  src/loader/batch_cpu.cpp
  src/loader/prepare.cpp
  src/points/sample.cpp
  src/points/sample_cpu.cpp
  src/store/crc32.cpp
  src/store/file.cpp
  src/store/json.cpp
  src/store/manifest.cpp
  src/store/safetensors.cpp
  src/store/shard.cpp
  src/store/statistics.cpp
  src/store/store.cpp
  src/store/stream_values.cpp
  src/transform/transform.cpp
  src/transform/transform_cpu_kernels.cpp
  src/voxel/checks.cpp
  src/voxel/sort_cpu.cpp
  src/voxel/voxelize.cpp
  src/voxel/voxelize_cpu.cpp
  src/voxel/voxelize_sparse.cpp
  src/voxel/voxelize_sparse_cpu.cpp
  src/window/check_windows.cpp
  src/window/fields.cpp
  src/window/windows.cpp)
add_library(robocache::robocache ALIAS robocache)
# While the major version is 0, a minor version may break programs built with the previous one.
set_target_properties(
  robocache
  PROPERTIES VERSION ${PROJECT_VERSION}
             SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR}
             EXPORT_NAME robocache)
target_include_directories(
  robocache
  PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
         $<BUILD_INTERFACE:${PROJECT_BINARY_DIR}/include>
         $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
  PRIVATE ${PROJECT_SOURCE_DIR}/src)
# The public headers ask for C++17; the library itself is C++20.
target_compile_features(robocache PUBLIC cxx_std_17)
find_package(Threads REQUIRED)
# The store's manifests; headers alone, so that whoever links the library does not need them.
include(RobocacheJson)
target_link_libraries(robocache PRIVATE $<BUILD_INTERFACE:robocache_flags> Threads::Threads
                                        $<BUILD_INTERFACE:nlohmann_json::nlohmann_json>)
# libjpeg-turbo. Libraries that Python loads link to a copy of their own instead of the system's.
include(RobocacheJpeg)
target_include_directories(robocache SYSTEM PRIVATE ${JPEG_INCLUDE_DIRS})
if(BUILD_SHARED_LIBS)
  target_link_libraries(robocache PRIVATE JPEG::JPEG)
else()
  target_link_libraries(
    robocache INTERFACE $<$<NOT:$<BOOL:$<TARGET_PROPERTY:ROBOCACHE_BUNDLED_JPEG>>>:JPEG::JPEG>)
endif()
if(BUILD_SHARED_LIBS)
  target_compile_definitions(robocache PUBLIC ROBOCACHE_SHARED)
endif()

# One source, once per instruction set: each copy is an object library in a namespace of its own,
# and the library chooses one when it is loaded.
set(robocache_cpu_targets baseline)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND robocache_cpu_targets avx2 avx512)
  set(robocache_flags_avx2 -mavx2 -mbmi2)
  set(robocache_flags_avx512
      ${robocache_flags_avx2} -mavx512f -mavx512bw -mavx512dq -mavx512vl -mprefer-vector-width=512)
  target_compile_definitions(robocache PRIVATE ROBOCACHE_X86_TARGETS)
endif()
# Loops that choose between floating numbers vectorize in GCC only where no one asks which
# exceptions they raise. Results are the same.
set_source_files_properties(src/image/process_cpu_kernels.cpp src/voxel/voxelize_cpu_kernels.cpp
                            PROPERTIES COMPILE_OPTIONS -fno-trapping-math)
# Files that other instruction sets do not speed up are compiled for the baseline alone.
set_source_files_properties(
  src/image/augment.cpp
  src/jpeg/decode_cpu.cpp src/jpeg/frame_walk.cpp src/jpeg/frames.cpp src/jpeg/index.cpp
  src/jpeg/scan_walker.cpp src/jpeg/tables.cpp
  src/live/ordered_rows.cpp src/live/row_transform.cpp src/live/transform_chain.cpp
  src/transform/transform_cpu_kernels.cpp
  PROPERTIES COMPILE_DEFINITIONS ROBOCACHE_CPU_TARGET=baseline)
foreach(target IN LISTS robocache_cpu_targets)
  add_library(robocache_cpu_${target} OBJECT src/align/align_cpu_kernels.cpp
                                            src/align/align_backward_cpu_kernels.cpp
                                            src/image/process_cpu_kernels.cpp
                                            src/loader/batch_cpu_kernels.cpp
                                            src/points/sample_cpu_kernels.cpp
                                            src/voxel/voxelize_cpu_kernels.cpp)
  target_compile_definitions(robocache_cpu_${target} PRIVATE ROBOCACHE_CPU_TARGET=${target})
  target_compile_options(robocache_cpu_${target} PRIVATE ${robocache_flags_${target}})
  target_include_directories(
    robocache_cpu_${target} PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_BINARY_DIR}/include
                                    ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(robocache_cpu_${target} PRIVATE robocache_flags)
  target_sources(robocache PRIVATE $<TARGET_OBJECTS:robocache_cpu_${target}>)
endforeach()

if(robocache_has_cuda)
  target_compile_definitions(robocache PRIVATE ROBOCACHE_HAS_CUDA)
  target_link_libraries(robocache PRIVATE CUDA::cudart_static)
endif()

# The contents of build_info().
list(JOIN robocache_cpu_targets " " cpu_targets)
list(JOIN CMAKE_CUDA_ARCHITECTURES " " cuda_architectures)
set(build_info
    "ROBOCACHE_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\""
    "ROBOCACHE_CPU_TARGETS=\"${cpu_targets}\""
    "ROBOCACHE_CUDA_VERSION=\"${CMAKE_CUDA_COMPILER_VERSION}\""
    "ROBOCACHE_CUDA_ARCHITECTURES=\"${cuda_architectures}\"")
set_source_files_properties(src/core/build_info.cpp src/core/cpu_target.cpp
                            PROPERTIES COMPILE_DEFINITIONS "${build_info}")
