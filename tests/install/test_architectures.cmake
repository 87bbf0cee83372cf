# Which GPU architectures a build is for, on machines whose nvidia-smi says this or that:
#   cmake -DSOURCE=... -DWORK=... -P test_architectures.cmake
include("${SOURCE}/cmake/RobocacheGpus.cmake")
file(MAKE_DIRECTORY "${WORK}")
set(ENV{PATH} "${WORK}:$ENV{PATH}")

# expect(LISTED STATUS ARCHITECTURES WORDS PROBLEM): the last two begin so.
function(expect listed status architectures words problem)
  file(WRITE "${WORK}/nvidia-smi" "#!/bin/sh\nprintf '${listed}'\nexit ${status}\n")
  file(CHMOD "${WORK}/nvidia-smi" PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE)
  robocache_choose_architectures(chosen why wrong)
  string(FIND "${why}" "${words}" in_words)
  string(FIND "${wrong}" "${problem}" in_problem)
  if(NOT chosen STREQUAL architectures OR NOT in_words EQUAL 0 OR NOT in_problem EQUAL 0)
    message(SEND_ERROR "${listed}: expected '${architectures}' ('${words}...', '${problem}...'), "
                       "got '${chosen}' ('${why}', '${wrong}')")
  endif()
endfunction()

expect("580.159.04, 9.0\\n" 0 "90" "90: the GPU architecture of this machine" "")
expect("580.159.04, 12.0\\n580.159.04, 8.6\\n580.159.04, 12.0\\n" 0 "86;120" "86 120: the GPU" "")
expect("580.159.04, 6.1\\n580.159.04, 8.9\\n" 0 "89" "89: the GPU" "")
expect("580.159.04, 6.1\\n" 0 "75-virtual" "" "the GPU here is older than Turing")
expect("550.54.15, 9.0\\n" 0 "75-virtual" "" "the NVIDIA driver is 550, older than 580")
expect("NVIDIA-SMI has failed\\n" 9 "75-virtual" "75-virtual: no GPU is here" "")
expect("No devices were found\\n" 0 "75-virtual" "75-virtual: no GPU is here" "")
