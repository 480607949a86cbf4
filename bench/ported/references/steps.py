"""Optimizer steps, narrow formats, products and attention that serve them."""


def lamb_rows(xp, W, G, MO, V, lr, b1, b2, eps, decay):
    m = b1 * MO + (1 - b1) * G
    v = b2 * V + (1 - b2) * G * G
    u = m / (xp.sqrt(v) + eps) + decay * W
    wn = xp.sqrt((W * W).sum(1))
    un = xp.sqrt((u * u).sum(1))
    ok = (wn > 0) & (un > 0)
    trust = xp.where(ok, wn / xp.where(ok, un, 1.0), 1.0)
    return W - lr * trust[:, None] * u, m, v


def lion_8bit(xp, W, G, S, AMAX, CODE, lr, b1, b2, decay, NB):
    g, w = G.reshape(NB, 256), W.reshape(NB, 256)
    m = CODE[xp.asarray(S, dtype=xp.int64)].reshape(NB, 256) * AMAX[:, None]
    u = m * b1 + (1 - b1) * g
    w = w * (1 - lr * decay) - lr * xp.sign(u)
    n = m * b2 + (1 - b2) * g
    top = xp.amax(abs(n), 1)
    x = n / xp.clip(top, 1e-20, None)[:, None]
    lo = xp.zeros((NB, 256), dtype=xp.int64)
    for k in range(8):
        mid = lo + (128 >> k)
        lo = xp.where(CODE[mid] <= x, mid, lo)
    hi = xp.clip(lo + 1, None, 255)
    near = xp.where(abs(CODE[hi] - x) < abs(CODE[lo] - x), hi, lo)
    return w.reshape(-1), xp.asarray(near.reshape(-1), dtype=xp.uint8), top


def shampoo_factor(xp, L, G, beta):
    return beta * L + (1 - beta) * (G @ G.T)


def sparse24_product(xp, W, META, X, M, K4):
    meta = xp.asarray(META, dtype=xp.int64)
    i = xp.arange(4)
    kept = W.reshape(M, K4, 2)
    a = xp.where(i == (meta & 3)[:, :, None], kept[:, :, :1], 0 * kept[:, :, :1])
    b = xp.where(i == ((meta >> 2) & 3)[:, :, None], kept[:, :, 1:], 0 * kept[:, :, 1:])
    return xp.einsum("mk,kn->mn", (a + b).reshape(M, 4 * K4), X)


def grouped_product_tails(xp, OFF, X, W, E, M, N):
    parts = [int(o) for o in OFF]
    return xp.concatenate([X[a:b] @ W[e].T for e, (a, b) in enumerate(zip(parts, parts[1:]))], 0)


def _to_e4m3_bits(xp, x):
    """Round to nearest even, saturating."""
    a = xp.clip(abs(x), None, 448.0)
    e = xp.clip(xp.floor(xp.log2(xp.clip(a, 1e-30, None))), -6, None)
    step = 2.0 ** (e - 3)
    q = xp.round(a / step)
    e = xp.where(q >= 16, e + 1, e)
    q = xp.where(q >= 16, 8 * (q > 0), q)
    bits = xp.where(q >= 8, (e + 7) * 8 + (q - 8), q)
    return bits + 128 * ((x < 0) | ((x == 0) & (1 / x < 0)))


def mxfp8_quantize(xp, X, M, NB):
    x = X.reshape(M, NB, 32)
    top = xp.amax(abs(x), 2)
    e = xp.clip(xp.floor(xp.log2(xp.clip(top, 1e-37, None))) + 127 - 8, 0, 254)
    y = x * (2.0 ** (127 - e))[:, :, None]
    return (
        xp.asarray(_to_e4m3_bits(xp, y).reshape(M, NB * 32), dtype=xp.uint8),
        xp.asarray(e, dtype=xp.uint8),
    )


def kv_quant_int4(xp, K):
    low, high = xp.amin(K, -1), xp.amax(K, -1)
    scale = xp.clip((high - low) / 15, 1e-6, None)
    q = xp.clip(xp.round((K - low[..., None]) / scale[..., None]), 0, 15)
    return xp.asarray(q[..., 0::2] + 16 * q[..., 1::2], dtype=xp.uint8), scale, low


def _softmax(xp, s):
    e = xp.exp(s - xp.amax(s, -1)[..., None])
    return e / e.sum(-1)[..., None]


def tree_attention(xp, Q, K, V, KT, VT, MASK, scale):
    i = xp.arange(32)
    sees = (((MASK[:, :, None] >> i) & 1) == 1) | (i[:, None] == i)
    a = xp.where(sees[:, None], xp.einsum("bhsd,bhtd->bhst", Q, KT) * scale, -xp.inf)
    s = xp.concatenate([a, xp.einsum("bhsd,bhtd->bhst", Q, K) * scale], -1)
    return xp.einsum("bhst,bhtd->bhsd", _softmax(xp, s), xp.concatenate([VT, V], 2))


def gated_slot_attention(xp, Q, K, V, F, scale, B, H, S, M, D):
    ks, vs, out = xp.zeros((B, H, M, D)), xp.zeros((B, H, M, D)), []
    for t in range(S):
        f = F[:, :, t, :, None]
        ks = ks * f + (1 - f) * K[:, :, t, None]
        vs = vs * f + (1 - f) * V[:, :, t, None]
        p = _softmax(xp, (ks * Q[:, :, t, None]).sum(-1) * scale)
        out.append((p[..., None] * vs).sum(-2))
    return xp.stack(out, 2)


def sinkhorn_rows(xp, C, V, LA, eps):
    z = (V[None, :] - C) / eps
    top = xp.amax(z, 1)
    p = xp.exp(z - top[:, None])
    s = p.sum(1)
    return eps * (LA - top - xp.log(s)), (p * C).sum(1) / s


def _sigmoid(xp, x):
    return 1 / (1 + xp.exp(-x))


def group_norm_silu_nhwc(xp, X, GAMMA, BETA, eps, G, B, P, C):
    x = X.reshape(B, P, G, C // G)
    mean = x.mean((1, 3))[:, None, :, None]
    var = ((x - mean) ** 2).mean((1, 3))[:, None, :, None]
    y = ((x - mean) / xp.sqrt(var + eps)).reshape(B, P, C) * GAMMA + BETA
    return y * _sigmoid(xp, y)
