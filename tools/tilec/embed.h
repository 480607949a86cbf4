/* embed.h: files of tools/aot that tilec carries in itself. */
#pragma once
#include <stddef.h>

extern const char launch_object[], launch_object_end[];     /* launch.c, compiled */
extern const char launch_header[], launch_header_end[];     /* launch.h */
