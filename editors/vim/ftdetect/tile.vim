" Written by tools/syntax.py from the compiler's tables; a test compares them.
au BufRead,BufNewFile *.tile setfiletype tile
