/* kernel_arguments.h: calls a kernel with arguments that the launch has in words of 8 bytes. Both device
 * headers include it; a parameter of more than 8 bytes (a tensor map) comes by its address. */

template <class T> EMU T emu_word(const uint64_t *w)
{
    T x;
    if (sizeof x > 8) memcpy((void *)&x, (const void *)*w, sizeof x); /* a tensor map */
    else memcpy((void *)&x, w, sizeof x);
    return x;
}
template <int... I> struct Seq {
};
template <int N, int... I> struct Make : Make<N - 1, N - 1, I...> {
};
template <int... I> struct Make<0, I...> {
    typedef Seq<I...> type;
};
template <class... P, int... I> EMU void emu_call(void (*k)(P...), const uint64_t *w, Seq<I...>)
{ k(emu_word<P>(w + I)...); }
template <class... P> EMU void emu_kernel(void (*k)(P...), const uint64_t *w)
{ emu_call(k, w, typename Make<sizeof...(P)>::type()); }
