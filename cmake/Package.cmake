# Packages: `./quickstart package`, or the target `dist`, writes three .deb files and the source as a tarball
# to dist/ in the build folder.
#
#   tilec         the command, its man page and its shell completion
#   libtile0      the shared library (named after its SOVERSION)
#   libtile-dev   headers, the archive, the CMake package, the pkg-config file
set(packages tilec libtile0 libtile-dev)
foreach(package ${packages})
  install(FILES ${CMAKE_SOURCE_DIR}/LICENSE DESTINATION share/doc/${package} RENAME copyright COMPONENT ${package})
  install(FILES ${CMAKE_SOURCE_DIR}/CHANGELOG.md DESTINATION share/doc/${package} COMPONENT ${package})
endforeach()

set(CPACK_PACKAGE_NAME tilec)
set(CPACK_PACKAGE_VENDOR tilec)
set(CPACK_PACKAGE_CONTACT "tilec maintainers <maintainers@tilec.invalid>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for tile kernels on the CPU, CUDA and HIP")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL ${packages})
set(CPACK_STRIP_FILES ON)
set(CPACK_GENERATOR DEB)

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_TILEC_PACKAGE_NAME tilec)
set(CPACK_DEBIAN_TILEC_PACKAGE_SECTION devel)
set(CPACK_COMPONENT_TILEC_DESCRIPTION "The command tilec: compiles, runs, measures and explains tile kernels.")
set(CPACK_DEBIAN_LIBTILE0_PACKAGE_NAME libtile0)
set(CPACK_DEBIAN_LIBTILE0_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBTILE0_PACKAGE_GENERATE_SHLIBS ON)
set(CPACK_COMPONENT_LIBTILE0_DESCRIPTION "The shared library: compiles and launches tile kernels in a program.")
set(CPACK_DEBIAN_LIBTILE-DEV_PACKAGE_NAME libtile-dev)
set(CPACK_DEBIAN_LIBTILE-DEV_PACKAGE_SECTION libdevel)
# tile_add_library() runs the command, and the CMake package exports it.
set(CPACK_DEBIAN_LIBTILE-DEV_PACKAGE_DEPENDS "libtile0 (= ${PROJECT_VERSION}), tilec (= ${PROJECT_VERSION})")
set(CPACK_COMPONENT_LIBTILE-DEV_DESCRIPTION "Headers, static library, CMake package and pkg-config file of libtile.")

# LLVM's library is opened at run time, so that dpkg-shlibdeps does not find it among what the files need.
get_property(llvm GLOBAL PROPERTY TILE_LLVM_LIBRARY)
find_program(DPKG dpkg)
if(llvm AND DPKG)
  execute_process(COMMAND ${DPKG} -S ${llvm} OUTPUT_VARIABLE owner ERROR_QUIET)
  if(owner MATCHES "^([^:, ]+)[:,]")
    set(CPACK_DEBIAN_TILEC_PACKAGE_DEPENDS ${CMAKE_MATCH_1})
    set(CPACK_DEBIAN_LIBTILE0_PACKAGE_DEPENDS ${CMAKE_MATCH_1})
  endif()
endif()

set(CPACK_SOURCE_GENERATOR TGZ)
set(CPACK_SOURCE_PACKAGE_FILE_NAME tilec-${PROJECT_VERSION})
set(CPACK_VERBATIM_VARIABLES ON)
# Regular expressions over whole paths: a checkout may lie below a folder named build.
string(REGEX REPLACE "([][+.*()^$?|\\\\])" "\\\\\\1" source_pattern "${CMAKE_SOURCE_DIR}")
set(CPACK_SOURCE_IGNORE_FILES "^${source_pattern}/build[^/]*/" "/[.]whl/" "/[.]git/" "/[.]git$" "[.](o|so|npy|cubin)$" "~$")
include(CPack)

set(dist ${CMAKE_BINARY_DIR}/dist)
add_custom_target(dist
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${dist}
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${CMAKE_BINARY_DIR}/CPackConfig.cmake -G DEB -B ${dist}
  COMMAND ${CMAKE_CPACK_COMMAND} --config ${CMAKE_BINARY_DIR}/CPackSourceConfig.cmake -D CPACK_PACKAGING_INSTALL_PREFIX=/ -B ${dist}
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${dist}/_CPack_Packages
  DEPENDS distribution WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
