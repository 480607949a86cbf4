# Installs the build to a prefix of its own, then builds and runs what a user would.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

function(run)
  execute_process(COMMAND ${ARGN} WORKING_DIRECTORY ${WORK} RESULT_VARIABLE status OUTPUT_VARIABLE out ERROR_VARIABLE out)
  if(NOT status EQUAL 0)
    string(JOIN " " command ${ARGN})
    message(FATAL_ERROR "${command}\n${out}")
  endif()
  set(out "${out}" PARENT_SCOPE)
endfunction()

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix --config ${CONFIG})
set(ENV{TILE_CACHE_DIR} ${WORK}/cache)

# find_package and tile_add_library, from a copy of the example so that nothing of the source tree is near.
file(COPY ${SOURCE}/examples/embed ${SOURCE}/examples/kernels DESTINATION ${WORK}/user)
run(${CMAKE_COMMAND} -S user/embed -B out -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build out)
run(out/softmax user/kernels/softmax.tile cpu)
message(STATUS "softmax: ${out}")
run(out/ahead)
message(STATUS "ahead: ${out}")

# A bundle: binaries or source for two GPU targets, and the CPU, on which it runs here.
file(COPY ${SOURCE}/examples/bundle DESTINATION ${WORK}/user)
set(ENV{TILE_NVRTC} ${WORK}/none.so)        # the same everywhere: no compiler for GPUs, so the bundle holds CUDA C
run(${CMAKE_COMMAND} -S user/bundle -B bundle -G ${GENERATOR} -DCMAKE_C_COMPILER=${CC} -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build bundle)
run(bundle/attend cpu)
if(NOT out MATCHES "CPU .cpu.: off by at most")
  message(FATAL_ERROR "attend: ${out}")
endif()
message(STATUS "attend: ${out}")

# A changed .tile file is compiled again, an unchanged one is not.
run(${CMAKE_COMMAND} --build out)
if(out MATCHES "Compiling softmax.tile")
  message(FATAL_ERROR "compiled again without need:\n${out}")
endif()
file(APPEND ${WORK}/user/kernels/softmax.tile "// changed\n")
run(${CMAKE_COMMAND} -E sleep 1)
file(TOUCH ${WORK}/user/kernels/softmax.tile)
run(${CMAKE_COMMAND} --build out)
if(NOT out MATCHES "Compiling softmax.tile")
  message(FATAL_ERROR "a changed file was not compiled again:\n${out}")
endif()

# pkg-config.
file(GLOB_RECURSE pc ${WORK}/prefix/*/tile.pc)
cmake_path(GET pc PARENT_PATH pc_dir)
if(PKG_CONFIG)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  run(${PKG_CONFIG} --cflags --libs tile)
  separate_arguments(flags UNIX_COMMAND "${out}")
  run(${PKG_CONFIG} --variable=libdir tile)
  string(STRIP "${out}" libdir)
  run(${CC} -std=c11 -Wall -Wextra -Werror user/embed/softmax.c ${flags} -Wl,-rpath,${libdir} -o softmax_pc)
  run(./softmax_pc user/kernels/softmax.tile cpu)
  message(STATUS "pkg-config: ${out}")
endif()

# The header by itself: C++, and C without a dlpack.h of the system's.
file(GLOB_RECURSE header ${WORK}/prefix/*/tile.h)
file(WRITE ${WORK}/alone.cc "#include \"${header}\"\nint main() { return tile_arg_int(3).kind == TILE_ARG_INT ? 0 : 1; }\n")
file(WRITE ${WORK}/alone.c "#define TILE_NO_SYSTEM_DLPACK\n#include \"${header}\"\nint main(void) { return sizeof(DLTensor) == 48 ? 0 : 1; }\n")
run(${CC} -std=c11 -Wall -Wextra -Wpedantic -Werror alone.c -o alone_c)
run(./alone_c)
find_program(CXX NAMES c++ g++ clang++ clang++-22)
if(CXX)
  run(${CXX} -std=c++11 -Wall -Wextra -Werror -fsyntax-only alone.cc)
endif()
