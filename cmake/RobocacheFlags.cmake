# Compiler settings of everything built here.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
if(robocache_has_cuda AND NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  # CMake before 3.26 does not know that nvcc has it.
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CUDA_SEPARABLE_COMPILATION OFF)
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Every backend gives the same bits: no contraction into fused multiply-add, on either side. errno
# is never read; without it the compiler can use the machine's own square root.
set(robocache_host_flags -ffp-contract=off -fno-math-errno)
set(robocache_warnings -Wall -Wextra)
# The flags that distributions build their packages with. Fortified functions need optimization,
# and sanitizers have their own; a distribution's compiler may define the macro itself. Host code of
# CUDA files consists of launches, and goes without.
set(robocache_hardening -fstack-protector-strong)
if(NOT ROBOCACHE_SANITIZE AND CMAKE_BUILD_TYPE MATCHES "^(Release|RelWithDebInfo|MinSizeRel)$")
  list(APPEND robocache_hardening -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2)
endif()
set(robocache_link_flags LINKER:-z,relro LINKER:-z,now LINKER:-z,noexecstack)
# Two builds of the same sources are equal, whatever folder they are built in: no path of this
# machine gets into them. ccache may make paths relative to the build folder.
function(robocache_hide_folder flags folder)
  file(RELATIVE_PATH relative "${PROJECT_BINARY_DIR}" "${folder}")
  string(REGEX REPLACE "/$" "" relative "${relative}")
  set(${flags} "-ffile-prefix-map=${folder}/=" "-ffile-prefix-map=${relative}/=" PARENT_SCOPE)
endfunction()
robocache_hide_folder(robocache_path_flags "${PROJECT_SOURCE_DIR}")
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND robocache_warnings -Wno-restrict) # GCC 12 sees one in std::string (its bug 105651)
endif()

set(robocache_cxx_flags
    ${robocache_host_flags} ${robocache_hardening} ${robocache_path_flags} ${robocache_warnings})
add_library(robocache_flags INTERFACE)
target_compile_options(
  robocache_flags
  INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${robocache_cxx_flags}>)
target_link_options(robocache_flags INTERFACE ${robocache_link_flags})
if(robocache_has_cuda)
  list(JOIN robocache_host_flags "," host_flags)
  target_compile_options(
    robocache_flags
    INTERFACE
      $<$<COMPILE_LANGUAGE:CUDA>:--fmad=false;--threads=2;-Xfatbin=-compress-all;-Xcompiler=${host_flags},-Wall,-Wextra>
  )
endif()

if(ROBOCACHE_SANITIZE)
  add_compile_options(
    "$<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${ROBOCACHE_SANITIZE};-fno-sanitize-recover=all;-fno-omit-frame-pointer>")
  add_link_options("-fsanitize=${ROBOCACHE_SANITIZE}")
endif()
