# tile_add_library(NAME file.tile...
#                  [TARGETS cpu cuda:sm_90a hip:gfx942 ...]   default: cpu
#                  [DEFINES D=64,128 ...]                     as tilec -D
#                  [KERNELS name...]                          default: all
#                  [INCLUDES dir...]                          where imports are looked up
#                  [OPTIONS flag...])                         any other flags of tilec, such as -O3 --wperf --werror; for GPUs --early-start, and
#                                                             --bundle-source=missing where NVRTC or clang may not be there when the project is built
#
# Compiles .tile files when the project is built and makes a static library NAME of the code, with one generated header a
# file: `#include "gemm.h"` for gemm.tile, typed launchers in it. Link NAME and call them; nothing of libtile is needed at run time.
# A changed file or import is compiled again.
include_guard(GLOBAL)

function(tile_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 t "" "" "TARGETS;DEFINES;KERNELS;INCLUDES;OPTIONS")
  if(NOT t_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "tile_add_library(${name}): no .tile file is named")
  endif()
  if(NOT t_TARGETS)
    set(t_TARGETS cpu)
  endif()
  list(REMOVE_DUPLICATES t_TARGETS)

  set(flags ${t_OPTIONS})
  foreach(value ${t_DEFINES})
    list(APPEND flags -D ${value})
  endforeach()
  foreach(value ${t_KERNELS})
    list(APPEND flags --kernel=${value})
  endforeach()
  foreach(value ${t_INCLUDES})
    cmake_path(ABSOLUTE_PATH value BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    list(APPEND flags -I ${value})
  endforeach()

  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name}.tile.dir)
  file(MAKE_DIRECTORY ${folder})
  set(products)
  foreach(file ${t_UNPARSED_ARGUMENTS})
    cmake_path(ABSOLUTE_PATH file BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
    cmake_path(GET file STEM LAST_ONLY stem)
    if(t_TARGETS STREQUAL "cpu")
      set(output ${folder}/${stem}.o)
      set(more)
      set(mode --target=cpu)
    else()
      # Several targets, or a GPU: C with the binaries in it and a dispatcher; the CPU's part is an object beside it.
      string(JOIN "," joined ${t_TARGETS})
      set(output ${folder}/${stem}.c)
      set(more)
      if("cpu" IN_LIST t_TARGETS)
        set(more ${folder}/${stem}.cpu.o)
      endif()
      set(mode --target=${joined} --bundle)
    endif()
    add_custom_command(
      OUTPUT ${output} ${more} ${folder}/${stem}.h
      COMMAND tile::tilec ${file} ${mode} ${flags} -o ${output} -h ${folder}/${stem}.h -MD -MF ${folder}/${stem}.d
      DEPENDS ${file} tile::tilec
      DEPFILE ${folder}/${stem}.d
      COMMENT "Compiling ${stem}.tile" VERBATIM)
    list(APPEND products ${output} ${more} ${folder}/${stem}.h)
  endforeach()

  set(objects ${products})
  list(FILTER objects INCLUDE REGEX "\\.o$")
  set_source_files_properties(${objects} PROPERTIES EXTERNAL_OBJECT TRUE GENERATED TRUE)
  add_library(${name} STATIC ${products})
  set_target_properties(${name} PROPERTIES LINKER_LANGUAGE C POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${name} PUBLIC ${folder})
  find_package(Threads REQUIRED)
  target_link_libraries(${name} PUBLIC Threads::Threads ${CMAKE_DL_LIBS} m)
endfunction()
