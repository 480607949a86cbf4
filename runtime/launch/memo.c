/* memo.c: launches that are like an earlier one. A memo holds one launch of a variant: what its arguments
 * were, word by word, and what was made of them: slots, tensor maps, the grid. A later launch whose arguments
 * say the same, addresses and scalars apart, needs no reading, no key, no variant, no grid: new addresses and
 * scalars are put into a copy of the slots. What may differ is checked again: an address must lie as the old
 * one did with respect to 16 bytes (which the key holds) and overlap nothing, a scalar must have the old
 * one's sign (likewise), and where the grid or the work reads scalars nothing is remembered of other values.
 * A launch that has to encode tensor maps anew is kept as well, so tensors that alternate are encoded once.
 * Whatever does not fit takes the long way through launch.c, which also finds the words for what is wrong.
 *
 * Memos belong to variants, which live as long as their kernel. They are rewritten under a sequence number
 * that is odd meanwhile: a reader copies what it needs and looks at the number again, so that it neither
 * waits nor writes. The number of words in a part depends on kernel and variant alone, so a copy that is torn
 * is wrong but stays in bounds. */
#include "runtime/launch/kernel.h"

enum { MEMO_PROGRAMS, MEMO_BLOCKS, MEMO_WORKSPACE, MEMO_HEAD };

/* For a tensor: what was given (kind and dtype, device, shape, strides), its address, and then the derived
 * data: reach below and above the address, facts, elements, strides and extents, which collapse.c may have
 * changed. For a scalar: its kind, the given bits, facts, the derived bits. */
enum {
    TENSOR_KIND,
    TENSOR_DEVICE,
    TENSOR_SHAPE,
    TENSOR_MADE = 5,
    SCALAR_KIND = 0,
    SCALAR_GIVEN,
    SCALAR_FACTS,
    SCALAR_WORD,
    SCALAR_WORDS
};
static inline int tensor_words(int rank) { return TENSOR_SHAPE + 2 * rank + TENSOR_MADE + 2 * rank; }

struct Memo {
    Variant *variant;
    atomic_uint sequence;
    _Atomic uint64_t words[]; /* the head, the arguments, the slots, and 16 words for each tensor map */
};

static int argument_words(const tile_kernel *k)
{
    int n = 0;
    for (int i = 0; i < k->n_params; i++)
        n += k->params[i].kind == PARAM_SCALAR ? SCALAR_WORDS : tensor_words(k->params[i].rank);
    return n;
}

static bool is_host_made(SlotKind kind) { return kind == SLOT_CHECK || kind == SLOT_PRINT; }

void memo_prepare(const tile_kernel *k, Variant *v)
{
    const Artifact *a = &v->compiled.artifact;
    VariantMemos *all = &v->memos;
    *all = (VariantMemos){ .scheduler = -1, .workspace = -1, .arguments = argument_words(k) };
    int *map_slot = arena_array(&v->arena, int, (size_t)a->n_maps + 1);
    all->map_slot = map_slot;
    bool host_made = false;
    for (int i = 0; i < a->n_slots; i++) {
        host_made |= is_host_made(a->slots[i].kind);
        if (a->slots[i].kind == SLOT_SCHEDULER) all->scheduler = i;
        if (a->slots[i].kind == SLOT_WORKSPACE) all->workspace = i;
        if (a->slots[i].kind == SLOT_TENSOR_MAP) map_slot[a->slots[i].index] = i;
    }
    if (host_made) return;
    const EvalCode *codes[] = { v->compiled.grid, v->compiled.remap, v->compiled.extents, v->compiled.work };
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        all->reads_scalars |= codes[i] && eval_reads_scalars(codes[i]);
    size_t n = (size_t)(MEMO_HEAD + all->arguments + a->n_slots + 16 * a->n_maps);
    for (int i = 0; i < MEMOS; i++) {
        Memo *m = arena_alloc(&v->arena, sizeof *m + n * sizeof *m->words);
        m->variant = v;
        atomic_init(&m->sequence, 0);
        for (size_t w = 0; w < n; w++) atomic_init(&m->words[w], 0);
        all->memo[i] = m;
    }
    all->n = MEMOS;
}

/* Acquire and release on each word keep the words between the two reads of the number. On x86 they are plain
 * moves. */
static inline uint64_t word(const _Atomic uint64_t *w)
{ return atomic_load_explicit(w, memory_order_acquire); }
static inline void set(_Atomic uint64_t *w, uint64_t v) { atomic_store_explicit(w, v, memory_order_release); }

/* --- writing ----------------------------------------------------------------------------------------- */

typedef struct Given {
    uint64_t kind, device;
    const int64_t *shape, *strides;
    char *data;
} Given;

/* A tensor as it was given, or left out, which only optional ones are once a launch was good; false where it
 * is of another rank or has no address. */
static inline bool given(const tile_arg *a, int rank, Given *g)
{
    static const int64_t none[TILE_MAX_RANK];
    uint64_t has;
    if (a->kind == TILE_ARG_NONE) {
        *g = (Given){ .shape = none };
        return true;
    }
    if (a->kind == TILE_ARG_DLTENSOR) {
        const DLTensor *t = a->value.dltensor;
        uint32_t type;
        if (!t || t->ndim != rank) return false;
        memcpy(&type, &t->dtype, sizeof type);
        memcpy(&g->device, &t->device, sizeof g->device);
        g->shape = t->shape;
        g->strides = t->strides;
        g->data = dl_address(t);
        has = type;
    } else if (a->kind == TILE_ARG_TENSOR) {
        const tile_tensor *t = a->value.tensor;
        if (!t || (t->rank >= 0 && t->rank != rank)) return false;
        g->device = 0;
        g->shape = t->shape;
        g->strides = t->strides;
        g->data = t->data;
        has = (uint32_t)t->dtype;
    } else return false;
    g->kind = (uint64_t)a->kind | (uint64_t)(g->strides != NULL) << 8 | has << 32;
    return g->data && (g->shape || !rank);
}
_Static_assert(sizeof(DLDataType) == 4 && sizeof(DLDevice) == 8, "DLPack's structs have no gaps");

static uint64_t number_bits(const tile_arg *a)
{
    uint64_t bits;
    memcpy(&bits, &a->value, sizeof bits);
    return bits;
}

static bool write_arguments(
    const tile_kernel *k, const tile_arg *args, const LaunchArgs *l, _Atomic uint64_t *w)
{
    for (int i = 0; i < k->n_params; i++) {
        const View *v = &l->views[i];
        int rank = k->params[i].rank;
        Given g;
        if (k->params[i].kind == PARAM_SCALAR) {
            set(w + SCALAR_KIND, (uint64_t)args[i].kind);
            set(w + SCALAR_GIVEN, number_bits(&args[i]));
            set(w + SCALAR_FACTS, v->facts);
            set(w + SCALAR_WORD, v->word);
            w += SCALAR_WORDS;
            continue;
        }
        if (!given(&args[i], rank, &g)) return false;
        set(w + TENSOR_KIND, g.kind);
        set(w + TENSOR_DEVICE, g.device);
        for (int a = 0; a < rank; a++) {
            set(w + TENSOR_SHAPE + a, (uint64_t)g.shape[a]);
            set(w + TENSOR_SHAPE + rank + a, g.strides ? (uint64_t)g.strides[a] : 0);
        }
        _Atomic uint64_t *made = w + TENSOR_SHAPE + 2 * rank;
        set(made, (uint64_t)(uintptr_t)g.data);
        set(made + 1, v->lo - (uintptr_t)v->data);
        set(made + 2, v->hi - (uintptr_t)v->data);
        set(made + 3, v->facts);
        set(made + 4, v->word);
        for (int a = 0; a < rank; a++) {
            set(made + TENSOR_MADE + a, (uint64_t)l->strides[i][a]);
            set(made + TENSOR_MADE + rank + a, (uint64_t)v->extent[a]);
        }
        w += tensor_words(rank);
    }
    return true;
}

/* Adds the memo to those that launches examine. */
static void publish(tile_kernel *k, Memo *m)
{
    for (int i = 0; i < MEMOS; i++)
        if (atomic_load_explicit(&k->recent[i], memory_order_relaxed) == m) return;
    unsigned at = atomic_fetch_add_explicit(&k->recent_next, 1, memory_order_relaxed) % MEMOS;
    atomic_store_explicit(&k->recent[at], m, memory_order_release);
}

void memo_keep(tile_kernel *k, Variant *v, const tile_arg *args, const LaunchArgs *l, const MemoMade *made)
{
    VariantMemos *all = &v->memos;
    const Artifact *a = &v->compiled.artifact;
    if (!all->n) return;
    Memo *m = all->memo[atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed) % MEMOS];
    unsigned before = atomic_load_explicit(&m->sequence, memory_order_relaxed);
    if (before % 2 || !atomic_compare_exchange_strong_explicit(
                          &m->sequence, &before, before + 1, memory_order_acquire, memory_order_relaxed))
        return;
    _Atomic uint64_t *slots = m->words + MEMO_HEAD + all->arguments;
    set(m->words + MEMO_PROGRAMS, (uint64_t)made->size.programs);
    set(m->words + MEMO_BLOCKS, (uint64_t)made->size.blocks);
    set(m->words + MEMO_WORKSPACE, made->size.workspace);
    bool whole = write_arguments(k, args, l, m->words + MEMO_HEAD);
    if (!whole) set(m->words + MEMO_PROGRAMS, 0); /* says nothing to anybody */
    for (int i = 0; i < a->n_slots; i++) set(slots + i, made->slots[i]);
    for (int i = 0; i < a->n_maps; i++) {
        uint64_t map[16];
        memcpy(map, made->maps[i], sizeof map);
        for (int j = 0; j < 16; j++) set(slots + a->n_slots + 16 * i + j, map[j]);
    }
    atomic_store_explicit(&m->sequence, before + 2, memory_order_release);
    if (whole) publish(k, m);
}

/* --- reading ----------------------------------------------------------------------------------------- */

enum { SAME, MOVED, OTHER };

/* Whether the tensor equals the memo's. MOVED: it has another address that promises as much. */
static inline int compare_tensor(const _Atomic uint64_t *w, const tile_arg *arg, int rank, View *v)
{
    Given g;
    if (!given(arg, rank, &g) || word(w + TENSOR_KIND) != g.kind || word(w + TENSOR_DEVICE) != g.device)
        return OTHER;
    uint64_t differ = 0;
    for (int a = 0; a < rank; a++) differ |= word(w + TENSOR_SHAPE + a) ^ (uint64_t)g.shape[a];
    if (g.strides)
        for (int a = 0; a < rank; a++) differ |= word(w + TENSOR_SHAPE + rank + a) ^ (uint64_t)g.strides[a];
    if (differ) return OTHER;
    uint64_t moved = word(w + TENSOR_SHAPE + 2 * rank) ^ (uint64_t)(uintptr_t)g.data;
    v->data = g.data;
    return !moved ? SAME : moved % 16 ? OTHER : MOVED;
}

static inline int compare_scalar(tile_kernel *k, int i, const _Atomic uint64_t *w, const tile_arg *a, View *v)
{
    if (word(w + SCALAR_KIND) == (uint64_t)a->kind && word(w + SCALAR_GIVEN) == number_bits(a)) {
        v->word = word(w + SCALAR_WORD);
        v->facts = (uint32_t)word(w + SCALAR_FACTS);
        return SAME;
    }
    return launch_scalar(k, i, a, v) && v->facts == word(w + SCALAR_FACTS) ? MOVED : OTHER;
}

/* Computes the remaining data of the views when an address moved, for the test of overlap. */
static void read_views(
    const tile_kernel *k, const _Atomic uint64_t *w, View *views, int64_t (*strides)[TILE_MAX_RANK])
{
    for (int i = 0; i < k->n_params; i++) {
        int rank = k->params[i].rank;
        if (k->params[i].kind == PARAM_SCALAR) {
            w += SCALAR_WORDS;
            continue;
        }
        const _Atomic uint64_t *made = w + TENSOR_SHAPE + 2 * rank;
        View *v = &views[i];
        v->lo = (uintptr_t)v->data + (uintptr_t)word(made + 1);
        v->hi = (uintptr_t)v->data + (uintptr_t)word(made + 2);
        v->facts = (uint32_t)word(made + 3);
        v->word = word(made + 4);
        for (int a = 0; a < rank; a++) {
            strides[i][a] = (int64_t)word(made + TENSOR_MADE + a);
            v->extent[a] = (int64_t)word(made + TENSOR_MADE + rank + a);
        }
        w += tensor_words(rank);
    }
}

static inline int compare_all(
    tile_kernel *k, const tile_arg *args, const _Atomic uint64_t *w, View *views, bool *moved, int *scalars)
{
    int tensors = SAME;
    *scalars = SAME;
    for (int i = 0; i < k->n_params; i++) {
        int rank = k->params[i].rank;
        bool scalar = k->params[i].kind == PARAM_SCALAR;
        int is = scalar ? compare_scalar(k, i, w, &args[i], &views[i])
                        : compare_tensor(w, &args[i], rank, &views[i]);
        if (is == OTHER) return OTHER;
        if (scalar) *scalars |= is;
        else tensors |= is;
        moved[i] = is == MOVED;
        w += scalar ? SCALAR_WORDS : tensor_words(rank);
    }
    return tensors;
}

/* Writes addresses and scalars of this launch to slots that another launch used, and encodes the tensor maps
 * of tensors that moved. */
static bool renew(tile_kernel *k, const Artifact *a, const View *views, int64_t (*strides)[TILE_MAX_RANK],
    const bool *moved, uint64_t *slots, unsigned char (*maps)[128])
{
    for (int i = 0; i < a->n_slots; i++) {
        const Slot *s = &a->slots[i];
        if (s->kind == SLOT_DATA) slots[i] = (uint64_t)(uintptr_t)views[s->param].data;
        else if (s->kind == SLOT_SCALAR) slots[i] = views[s->param].word;
    }
    for (int i = 0; i < a->n_maps; i++) {
        const TensorMapDesc *m = &a->maps[i];
        if (!moved[m->param]) continue;
        DriverTensorMap t = { m, views[m->param].data, views[m->param].extent, strides[m->param] };
        DriverError e;
        if (k->context->driver->ops->tensor_map(k->context->driver, &t, maps[i], &e)) return false;
    }
    return true;
}

static inline bool moves_maps(const Artifact *a, const bool *moved)
{
    for (int i = 0; i < a->n_maps; i++)
        if (moved[a->maps[i].param]) return true;
    return false;
}

typedef enum Recall {
    RECALL_OTHER,   /* the memo is of another launch */
    RECALL_ENCODES, /* the memo serves, at the price of encoding tensor maps; nothing was launched */
    RECALL_DONE
} Recall;

static inline Recall recall(tile_kernel *k, Memo *m, const tile_arg *args, const tile_launch_desc *desc,
    bool may_encode, tile_status *status)
{
    Variant *v = m->variant;
    const VariantMemos *all = &v->memos;
    const Artifact *a = &v->compiled.artifact;
    unsigned before = atomic_load_explicit(&m->sequence, memory_order_acquire);
    const _Atomic uint64_t *w = m->words + MEMO_HEAD, *stored = w + all->arguments;
    View views[k->n_params + 1];
    int64_t strides[k->n_params + 1][TILE_MAX_RANK];
    bool moved[k->n_params + 1];
    int scalars, tensors = before % 2 ? OTHER : compare_all(k, args, w, views, moved, &scalars);
    if (tensors == OTHER || (scalars == MOVED && all->reads_scalars)) return RECALL_OTHER;
    bool encodes = tensors == MOVED && moves_maps(a, moved);
    if (encodes && !may_encode) return RECALL_ENCODES;
    if (tensors == MOVED) read_views(k, w, views, strides);

    uint64_t slots[a->n_slots + 1];
    void *params[a->n_slots + 1];
    _Alignas(64) unsigned char maps[a->n_maps + 1][128];
    LaunchSize size = { (int64_t)word(m->words + MEMO_PROGRAMS), (int64_t)word(m->words + MEMO_BLOCKS),
        (size_t)word(m->words + MEMO_WORKSPACE) };
    for (int i = 0; i < a->n_slots; i++) {
        slots[i] = word(stored + i);
        params[i] = &slots[i];
    }
    for (int i = 0; i < a->n_maps; i++) params[all->map_slot[i]] = maps[i];
    for (int i = 0; i < 16 * a->n_maps; i++) {
        uint64_t part = word(stored + a->n_slots + i);
        memcpy((unsigned char *)maps + 8 * i, &part, 8);
    }
    if (atomic_load_explicit(&m->sequence, memory_order_relaxed) != before || !size.programs)
        return RECALL_OTHER;

    if (tensors == MOVED && !launch_apart(k, views)) return RECALL_OTHER;
    if ((tensors == MOVED || scalars == MOVED) && !renew(k, a, views, strides, moved, slots, maps))
        return RECALL_OTHER;
    if (size.workspace && !launch_has_workspace(k->context, desc, size.workspace)) return RECALL_OTHER;
    *status = launch_borrowing(k, v, slots, params, &size, desc);
    if (encodes && !*status)
        memo_keep(k, v, args, &(LaunchArgs){ .views = views, .strides = strides },
            &(MemoMade){ slots, maps, size });
    return RECALL_DONE;
}

bool memo_launch(
    tile_kernel *k, const tile_arg *args, size_t n, const tile_launch_desc *desc, tile_status *status)
{
    /* A checked launch waits for its check record, so it is never launched from a memo. */
    if (k->context->flags & TILE_CONTEXT_CHECKED) return false;
    if (n != (size_t)k->n_params || (n && !args) || (desc && desc->struct_size < sizeof *desc)) return false;
    Memo *encoding = NULL; /* the first that serves only with other tensor maps */
    for (int i = 0; i < MEMOS; i++) {
        Memo *m = atomic_load_explicit(&k->recent[i], memory_order_acquire);
        if (!m) break;
        Recall found = recall(k, m, args, desc, false, status);
        if (found == RECALL_DONE) return true;
        if (found == RECALL_ENCODES && !encoding) encoding = m;
    }
    return encoding && recall(k, encoding, args, desc, true, status) == RECALL_DONE;
}
