/* words.c: the words of the language as texts, from the tables that the lexer and the calls use. */
#include "frontend/frontend.h"

const char *frontend_words(FrontWords kind)
{
    switch (kind) {
    case FRONT_KEYWORDS:
        return ""
#define KEYWORD(word) word " "
#include "keywords.inc"
#undef KEYWORD
            ;
    case FRONT_TYPES:
        return ""
#define DTYPE(ID, name, bits, kind) name " "
#include "ir/type.def"
#undef DTYPE
            ;
    case FRONT_FUNCTIONS:
        return ""
#define BUILTIN(name, signature, handler, op) #name " "
#include "frontend/check/builtins.def"
#undef BUILTIN
            ;
    case FRONT_HINTS:
        return ""
#define HINT(name, most, base, search, reader) #name " "
#include "ir/hints.def"
#undef HINT
            ;
    }
    return NULL;
}
