/* object_call.c: runs a launch that exec_object.c wrote, on the machine of the object that it is linked with.
 *
 *     object_call CALL MEMORY
 *
 * The names kernel_.. are given to the kernel's by the linker. */
#include "object_call.h"
#include "tools/aot/launch.h"
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef int Kernel(const uint64_t *, int64_t, int64_t, void *, int32_t);
extern const int64_t kernel_plan[];
extern Kernel *const kernel_entries[];
int kernel_launch(
    const int64_t *, Kernel *const *, const tile_launch_arg *, const int64_t *, const tile_threads *);
const char *kernel_error(void);

int main(int argc, char **argv)
{
    static Call call;
    tile_launch_arg args[CALL_ARGS];
    struct stat size;
    FILE *f = argc == 3 ? fopen(argv[1], "rb") : NULL;
    int fd = argc == 3 ? open(argv[2], O_RDWR) : -1;
    if (!f || fd < 0 || fread(&call, sizeof call, 1, f) != 1 || fstat(fd, &size)) return 2;
    char *memory = mmap(NULL, (size_t)size.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return 2;
    memset(args, 0, sizeof args);
    for (int64_t i = 0; i < call.n_args; i++) {
        const CallArg *a = &call.args[i];
        if (a->offset < 0) args[i].word = a->word;
        else args[i].view = (tile_view){ memory + a->offset, a->shape, a->strides };
    }
    const tile_threads two = { .n = 2 };
    int64_t none[1] = { 0 };
    int status = kernel_launch(kernel_plan, kernel_entries, args, none, &two);
    if (status) fprintf(stderr, "%s: %s\n", tile_launch_status_name(status), kernel_error());
    return status ? 1 : 0;
}
