" Written by tools/syntax.py from the compiler's tables; a test compares them.
if exists("b:did_ftplugin")
  finish
endif
let b:did_ftplugin = 1
setlocal expandtab shiftwidth=4 softtabstop=4 textwidth=110 cindent
setlocal comments=s1:/*,mb:*,ex:*/,:// commentstring=//\ %s suffixesadd=.tile
setlocal formatprg=tilec\ fmt\ -
let b:undo_ftplugin = "setlocal et< sw< sts< tw< cin< com< cms< sua< fp<"
