/* main.c: the entry point of tilec. */
#include "tools/tilec/tool.h"

int main(int argc, char **argv) { return tool_main(argc, argv, allocator_libc, stdout, stderr); }
