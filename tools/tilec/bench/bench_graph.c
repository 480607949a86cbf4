/* bench_graph.c: `--graph`: launches captured into a CUDA graph and timed as one, so that the host takes no
 * part. The driver's functions are called directly: the library itself makes no graphs. */
#include "tools/tilec/bench/bench.h"
#include <dlfcn.h>

enum { LAUNCHES = 16 }; /* of one graph */

/* The part of the driver that is used; the types are those of cuda.h. */
typedef struct Graphs {
    void *library;
    int (*ctx_retain)(void **context, int device);
    int (*ctx_release)(int device);
    int (*ctx_push)(void *context);
    int (*ctx_pop)(void **context);
    int (*begin)(void *stream, int mode);
    int (*end)(void *stream, void **graph);
    int (*instantiate)(void **exec, void *graph, unsigned long long flags);
    int (*launch)(void *exec, void *stream);
    int (*exec_destroy)(void *exec);
    int (*graph_destroy)(void *graph);
} Graphs;

static bool load(Graphs *g)
{
    const struct {
        const char *name;
        void *to;
    } functions[] = { { "cuDevicePrimaryCtxRetain", &g->ctx_retain },
        { "cuDevicePrimaryCtxRelease_v2", &g->ctx_release }, { "cuCtxPushCurrent_v2", &g->ctx_push },
        { "cuCtxPopCurrent_v2", &g->ctx_pop }, { "cuStreamBeginCapture_v2", &g->begin },
        { "cuStreamEndCapture", &g->end }, { "cuGraphInstantiateWithFlags", &g->instantiate },
        { "cuGraphLaunch", &g->launch }, { "cuGraphExecDestroy", &g->exec_destroy },
        { "cuGraphDestroy", &g->graph_destroy } };
    g->library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; g->library && i < sizeof functions / sizeof *functions; i++) {
        void *f = dlsym(g->library, functions[i].name);
        if (!f) return false;
        memcpy(functions[i].to, &f, sizeof f);
    }
    return g->library != NULL;
}

int graph_check(Bench *b)
{
    const char *target = args_last(b->args, FLAG_TARGET, "cpu");
    Graphs g = { 0 };
    if (strncmp(target, "cuda", 4))
        return tool_usage(b->tool, "--graph needs an NVIDIA GPU (--target=cuda), the target is %s", target);
    bool ok = load(&g);
    if (g.library) dlclose(g.library);
    return ok ? EXIT_OK
              : tool_error(b->tool, "--graph needs an NVIDIA driver with CUDA graphs: none is found here");
}

/* LAUNCHES launches as one graph; false: the driver or a launch refused. */
static bool capture(const Graphs *g, Run *r, void *stream, void **graph)
{
    if (g->begin(stream, 2)) return false; /* relaxed: a launch may allocate */
    tile_launch_desc d = r->desc;
    d.stream = stream;
    tile_status st = TILE_OK;
    for (int i = 0; i < LAUNCHES && !st; i++) st = tile_launch(r->kernel, r->launch_args, r->n_params, &d);
    return !g->end(stream, graph) && !st && *graph;
}

static int time_graph(
    Bench *b, const Graphs *g, Run *r, void *exec, void *stream, double *ms, int64_t repeat, int *n)
{
    enum { MAX = 1000 };
    const char *name =
        r->profile ? arena_printf(&r->tool->arena, "%s, graph of %d launches", r->profile->name, LAUNCHES)
                   : NULL;
    int64_t start = clock_ns(), limit = (int64_t)(b->seconds * 1e9);
    for (*n = 0; *n < (repeat ? repeat : MAX) && (repeat || *n < 3 || clock_ns() - start < limit); ++*n) {
        TRY(r, tile_event_record(r->context, r->begin, stream));
        if (g->launch(exec, stream)) return EXIT_INPUT;
        TRY(r, tile_event_record(r->context, r->end, stream));
        TRY(r, tile_event_synchronize(r->context, r->end));
        TRY(r, tile_event_elapsed(r->context, r->begin, r->end, &ms[*n]));
        if (r->profile)
            vec_push(&r->tool->arena, &r->profile->launches,
                ((ProfileLaunch){ name, clock_ns() - (int64_t)(ms[*n] * 1e6), ms[*n] }));
        ms[*n] /= LAUNCHES;
    }
    return EXIT_OK;
}

static int timed(Bench *b, const Graphs *g, Run *r, void *stream, Measured *out)
{
    void *graph = NULL, *exec = NULL;
    int64_t repeat = 0;
    int n = 0, code = EXIT_INPUT;
    if (!args_int(b->tool, b->args, FLAG_REPEAT, 1, 1000, &repeat)) return EXIT_USAGE;
    double *ms = arena_array(&b->tool->arena, double, 1001);
    if (!r->begin) TRY(r, tile_event_create(r->context, &r->begin));
    if (!r->end) TRY(r, tile_event_create(r->context, &r->end));
    if (capture(g, r, stream, &graph) && !g->instantiate(&exec, graph, 0)) {
        g->launch(exec, stream); /* not counted */
        code = time_graph(b, g, r, exec, stream, ms, repeat, &n);
    }
    if (exec) g->exec_destroy(exec);
    if (graph) g->graph_destroy(graph);
    if (!code) *out = measure_summary(ms, n);
    return code;
}

int graph_time(Bench *b, Run *r, Measured *out)
{
    Graphs g = { 0 };
    void *context = NULL, *stream = NULL;
    int device = r->device.device.device_id, code = EXIT_INPUT;
    if (load(&g) && !g.ctx_retain(&context, device)) {
        g.ctx_push(context);
        if (!tile_stream_create(r->context, &stream)) {
            code = timed(b, &g, r, stream, out);
            tile_stream_destroy(r->context, stream);
        }
        g.ctx_pop(&context);
        g.ctx_release(device);
    }
    if (code && !*r->captured)
        format_text(r->captured, CAPTURED, "error: the driver made no graph of the launches\n");
    return code;
}
