/* variant_table.c: finds the variant for a launch's key. The table is read without locks; only a miss takes
 * the kernel's lock, and one thread compiles (variant.c) while the others wait for it. */
#include "runtime/launch/kernel.h"

static uint64_t hash_key(const uint64_t *key, int n)
{
    uint64_t h = 0x9e3779b97f4a7c15ull;
    for (int i = 0; i < n; i++) {
        h = (h ^ key[i]) * 0xff51afd7ed558ccdull;
        h ^= h >> 32;
    }
    return h;
}

static Variant *find(const VariantTable *t, const uint64_t *key, int words, uint64_t hash)
{
    if (!t) return NULL;
    for (size_t i = hash & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        Variant *v = atomic_load_explicit(&t->slot[i], memory_order_acquire);
        if (!v) return NULL;
        if (v->hash == hash && !memcmp(v->key, key, (size_t)words * 8)) return v;
    }
}

static void put(VariantTable *t, Variant *v)
{
    size_t i = v->hash & (t->cap - 1);
    while (atomic_load_explicit(&t->slot[i], memory_order_relaxed)) i = (i + 1) & (t->cap - 1);
    atomic_store_explicit(&t->slot[i], v, memory_order_release);
    t->n++;
}

/* Under the lock. NULL when out of memory. */
static Variant *add(tile_kernel *k, const uint64_t *key, uint64_t hash)
{
    VariantTable *t = atomic_load_explicit(&k->table, memory_order_relaxed);
    if (!t || 2 * (t->n + 1) > t->cap) {
        size_t cap = t ? 2 * t->cap : 16, bytes = sizeof *t + cap * sizeof *t->slot;
        VariantTable *bigger = context_alloc(k->context, bytes);
        if (!bigger) return NULL;
        bigger->cap = cap;
        bigger->bytes = bytes;
        bigger->older = t;
        for (size_t i = 0; t && i < t->cap; i++) {
            Variant *v = atomic_load_explicit(&t->slot[i], memory_order_relaxed);
            if (v) put(bigger, v);
        }
        atomic_store_explicit(&k->table, bigger, memory_order_release);
        t = bigger;
    }
    size_t bytes = sizeof(Variant) + (size_t)k->key_words * 8;
    Variant *v = context_alloc(k->context, bytes);
    if (!v) return NULL;
    v->bytes = bytes;
    v->hash = hash;
    memcpy(v->key, key, (size_t)k->key_words * 8);
    v->next = k->variants;
    k->variants = v;
    put(t, v);
    return v;
}

/* One thread compiles, and the others that need the same variant wait for it. After a failure for lack of
 * memory or device, the next launch tries again; a variant that does not compile is remembered. */
static tile_status miss(
    tile_kernel *k, const LaunchArgs *l, const uint64_t *key, uint64_t hash, Variant **out)
{
    if (context_sealed(k->context)) return kernel_refuse(k, key, NULL);
    lock_enter(&k->lock);
    Variant *v = find(atomic_load_explicit(&k->table, memory_order_relaxed), key, k->key_words, hash);
    if (!v && !(v = add(k, key, hash))) {
        lock_leave(&k->lock);
        return context_fail(k->context, TILE_ERROR_OUT_OF_MEMORY, "out of memory");
    }
    while (atomic_load(&v->state) == VARIANT_COMPILING && v->forks == fork_count()) lock_wait(&k->lock);
    int state = atomic_load(&v->state);
    /* A thread of the parent process was compiling it, and this process does not have that thread. Compile it
     * from the start. */
    if (state == VARIANT_COMPILING) state = VARIANT_EMPTY;
    tile_status st = TILE_OK;
    if (state == VARIANT_FAILED) {
        st = context_fail(k->context, v->failure, "%s", v->error ? v->error : k->title);
    } else if (state == VARIANT_EMPTY) {
        bool permanent = false;
        atomic_store(&v->state, VARIANT_COMPILING);
        v->forks = fork_count();
        lock_leave(&k->lock);
        st = variant_make(k, l, v, &permanent);
        lock_enter(&k->lock);
        v->failure = st;
        atomic_store_explicit(&v->state,
            !st         ? VARIANT_READY
            : permanent ? VARIANT_FAILED
                        : VARIANT_EMPTY,
            memory_order_release);
        lock_wake(&k->lock);
    }
    lock_leave(&k->lock);
    *out = v;
    return st;
}

Variant *kernel_ready(tile_kernel *k, const uint64_t *key)
{
    Variant *v = find(atomic_load_explicit(&k->table, memory_order_acquire), key, k->key_words,
        hash_key(key, k->key_words));
    return v && atomic_load_explicit(&v->state, memory_order_acquire) == VARIANT_READY ? v : NULL;
}

tile_status kernel_variant(tile_kernel *k, const LaunchArgs *l, const uint64_t *key, Variant **out)
{
    *out = kernel_ready(k, key);
    return *out ? TILE_OK : miss(k, l, key, hash_key(key, k->key_words), out);
}
