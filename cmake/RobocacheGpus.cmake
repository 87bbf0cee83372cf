# Which GPU architectures to build for, where the user names none (CMAKE_CUDA_ARCHITECTURES, or
# CUDAARCHS in the environment): those of the GPUs that are here.

# Without a GPU: PTX, which every driver compiles for its GPU. It takes a third of the time that
# machine code takes.
set(robocache_default_architectures 75-virtual)
set(robocache_oldest_driver 580) # of CUDA 13
set(robocache_oldest_gpu 75)

# Sets ARCHITECTURES, WORDS with the reason, and PROBLEM if none runs on the GPUs of the machine.
function(robocache_choose_architectures architectures words problem)
  list(JOIN robocache_default_architectures " " default)
  set(${architectures} ${robocache_default_architectures} PARENT_SCOPE)
  set(${words} "${default}" PARENT_SCOPE)
  set(${problem} "" PARENT_SCOPE)
  execute_process(
    COMMAND nvidia-smi --query-gpu=driver_version,compute_cap --format=csv,noheader
    OUTPUT_VARIABLE listed
    ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status STREQUAL "0" OR NOT listed MATCHES "^[0-9]")
    set(${words}
        "${default}: no GPU is here, so this is PTX for any. The driver compiles it at the first \
use of alignment and of the loader, about a minute each, and keeps it. CUDAARCHS='80;90' in the \
environment builds machine code for A100 and H100"
        PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCH "^[0-9]+" driver "${listed}")
  if(driver LESS robocache_oldest_driver)
    set(${problem} "the NVIDIA driver is ${driver}, older than ${robocache_oldest_driver}, which \
CUDA 13 needs (CUDAARCHS=90 in the environment builds for other machines)" PARENT_SCOPE)
    return()
  endif()
  string(REGEX MATCHALL "[0-9]+\\.[0-9]+ *(\n|$)" found "${listed}")
  set(usable "")
  foreach(capability IN LISTS found)
    string(REGEX REPLACE "[^0-9]" "" capability "${capability}")
    if(NOT capability LESS robocache_oldest_gpu)
      list(APPEND usable ${capability})
    endif()
  endforeach()
  if(NOT usable)
    set(${problem} "the GPU here is older than Turing (compute capability 7.5), which CUDA 13 \
needs (CUDAARCHS=90 in the environment builds for other machines)" PARENT_SCOPE)
    return()
  endif()
  list(REMOVE_DUPLICATES usable)
  list(SORT usable COMPARE NATURAL)
  list(JOIN usable " " joined)
  set(${architectures} ${usable} PARENT_SCOPE)
  set(${words} "${joined}: the GPU architecture of this machine" PARENT_SCOPE)
endfunction()
