# `cmake --install` and find_package(robocache CONFIG).

include(CMakePackageConfigHelpers)
set(robocache_cmake_dir "${CMAKE_INSTALL_LIBDIR}/cmake/robocache")

install(
  TARGETS robocache
  EXPORT robocache-targets
  COMPONENT cpp)
install(
  DIRECTORY include/robocache "${PROJECT_BINARY_DIR}/include/robocache"
  DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
  COMPONENT cpp
  FILES_MATCHING
  PATTERN "*.h")
install(
  EXPORT robocache-targets
  NAMESPACE robocache::
  DESTINATION "${robocache_cmake_dir}"
  COMPONENT cpp)

configure_package_config_file(
  "${CMAKE_CURRENT_LIST_DIR}/robocache-config.cmake.in"
  "${PROJECT_BINARY_DIR}/robocache-config.cmake"
  INSTALL_DESTINATION "${robocache_cmake_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/robocache-config-version.cmake"
                                 COMPATIBILITY SameMinorVersion)
install(
  FILES "${PROJECT_BINARY_DIR}/robocache-config.cmake"
        "${PROJECT_BINARY_DIR}/robocache-config-version.cmake"
  DESTINATION "${robocache_cmake_dir}"
  COMPONENT cpp)
