# Decides whether to build the CUDA backend, and enables the language. Sets robocache_has_cuda and
# robocache_summary.

set(robocache_has_cuda FALSE)
set(robocache_cuda_minimum 13.0)

include(RobocacheGpus)

if(ROBOCACHE_CUDA)
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    set(problem "there is no nvcc that works here (on PATH, in CUDACXX or CMAKE_CUDA_COMPILER)")
  else()
    execute_process(
      COMMAND "${CMAKE_CUDA_COMPILER}" --version
      OUTPUT_VARIABLE nvcc_says
      ERROR_QUIET)
    string(REGEX MATCH "release ([0-9]+\\.[0-9]+)" ignored "${nvcc_says}")
    if(CMAKE_MATCH_1 VERSION_LESS robocache_cuda_minimum)
      set(problem "${CMAKE_CUDA_COMPILER} is CUDA '${CMAKE_MATCH_1}', older than \
${robocache_cuda_minimum}")
    else()
      set(robocache_has_cuda TRUE)
    endif()
  endif()
  if(robocache_has_cuda AND NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND NOT DEFINED ENV{CUDAARCHS})
    robocache_choose_architectures(chosen chosen_words problem)
    if(problem AND ROBOCACHE_CUDA STREQUAL "AUTO")
      set(robocache_has_cuda FALSE)
    endif()
  endif()
  if(NOT robocache_has_cuda AND NOT ROBOCACHE_CUDA STREQUAL "AUTO")
    message(FATAL_ERROR "ROBOCACHE_CUDA=${ROBOCACHE_CUDA}, but ${problem}. "
                        "Install CUDA ${robocache_cuda_minimum} or newer, or build the CPU part "
                        "alone with ROBOCACHE_CUDA=OFF.")
  endif()
endif()

if(robocache_has_cuda)
  if(chosen)
    set(CMAKE_CUDA_ARCHITECTURES ${chosen} CACHE STRING "GPU architectures")
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit ${robocache_cuda_minimum} REQUIRED)
  if(NOT chosen)
    list(JOIN CMAKE_CUDA_ARCHITECTURES " " chosen_words)
  endif()
  set(robocache_summary "CPU and CUDA ${CMAKE_CUDA_COMPILER_VERSION}, for ${chosen_words}")
elseif(ROBOCACHE_CUDA)
  set(robocache_summary "CPU only, as ${problem}")
else()
  set(robocache_summary "CPU only, as asked")
endif()
