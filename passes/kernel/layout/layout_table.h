/* layout_table.h: layouts by their text. Types carry the interned text, while passes and the emitter work on
 * the structure. */
#pragma once
#include "ir/ir.h"
#include "ir/layout/layout.h"

typedef struct LayoutTable {
    Session *session;
    VEC(struct {
        const char *text;
        const Layout *layout;
        const LayoutShared *shared;
    })
    rows;
} LayoutTable;

const Layout *layouts_get(
    LayoutTable *, const Type *); /* of a tile; an internal error if the type has none */
const LayoutShared *layouts_shared(LayoutTable *, const Type *); /* of a shared buffer or view */
const char *layouts_text(LayoutTable *, const Layout *);
const char *layouts_shared_text(LayoutTable *, const LayoutShared *);
const Type *layouts_typed(LayoutTable *, const Type *, const Layout *); /* the tile type with this layout */
