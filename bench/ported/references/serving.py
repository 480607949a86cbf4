"""Caches, routing, sampling and adapters of serving engines."""

from references.sequence import _e4m3, _sigmoid


def paged_attention_blocks(xp, Q, KC, VC, TABLE, LEN, scale, S, H, D):
    out = []
    for s in range(S):
        n = int(LEN[s]) + 1
        pages = TABLE[s, : -(-n // 16)]
        k = xp.moveaxis(KC[pages], 3, 1).reshape(-1, H, D)[:n]
        v = xp.moveaxis(VC[pages], 3, 1).reshape(-1, H, D)[:n]
        x = xp.einsum("hd,nhd->hn", Q[s] * scale, k)
        p = xp.exp(x - xp.amax(x, axis=1, keepdims=True))
        out.append(xp.einsum("hn,nhd->hd", p / xp.sum(p, axis=1, keepdims=True), v))
    return xp.stack(out)


def merge_attention_states(xp, A, LA, B, LB):
    lse = xp.logaddexp(LA, LB)
    a, b = xp.exp(LA - lse).T[:, :, None], xp.exp(LB - lse).T[:, :, None]
    return A * a + B * b, lse


def moe_align_blocks(xp, ID, E, BLOCK):
    count = xp.bincount(ID, minlength=E)
    padded = (count + BLOCK - 1) // BLOCK * BLOCK
    return count, xp.cumsum(padded, axis=0) - padded


def moe_sum(xp, Y, W):
    return xp.einsum("tkn,tk->tn", Y, W)


def grouped_topk(xp, X, BIAS, scale, T, E, G, KG, K):
    score = _sigmoid(xp, X)
    biased = (score + BIAS).reshape(T, G, E // G)
    two = xp.sum(xp.sort(biased, axis=2)[:, :, -2:], axis=2)
    least = xp.sort(two, axis=1)[:, -KG][:, None]
    masked = xp.where((two >= least)[:, :, None], biased, -xp.inf).reshape(T, E)
    ids = xp.argsort(-masked, axis=1)[:, :K]
    w = xp.take_along_axis(score, ids, axis=1)
    return w / xp.sum(w, axis=1, keepdims=True) * scale, ids


def top_p_threshold(xp, P, top, PASSES):
    low, high = P[:, :1] * 0, xp.amax(P, axis=1, keepdims=True)
    total = xp.sum(P, axis=1, keepdims=True)
    for _ in range(PASSES):
        mid = (low + high) * 0.5
        enough = xp.sum(xp.where(mid < P, P, 0.0), axis=1, keepdims=True) >= top * total
        low, high = xp.where(enough, mid, low), xp.where(enough, high, mid)
    kept = xp.where(low < P, P, 0.0)
    return kept / xp.sum(kept, axis=1, keepdims=True)


def min_p_gumbel(xp, X, U, part, temperature):
    noise = -xp.log(-xp.log(xp.clip(U, 1e-6, 0.999999)))
    open_ = (X - xp.amax(X, axis=1, keepdims=True)) / temperature >= xp.log(xp.asarray(part))
    return xp.argmax(xp.where(open_, X / temperature + noise, -xp.inf), axis=1)


def apply_penalties(xp, X, COUNT, REP, FREQ, PRES):
    n = xp.clip(COUNT, 0, None)
    rep = xp.abs(REP)[:, None] + 1
    scaled = xp.where(n > 0, xp.where(X > 0, X / rep, X * rep), X)
    return scaled - FREQ[:, None] * n - xp.where(n > 0, PRES[:, None], 0.0)


def rejection_sample(xp, DRAFT, P, Q, U, NEW, K):
    p = xp.take_along_axis(P, DRAFT[:, :, None], axis=2)[:, :, 0]
    q = xp.take_along_axis(Q, DRAFT[:, :, None], axis=2)[:, :, 0]
    accepted = xp.cumprod((q > 0) & (p >= U * q), axis=1)
    n = xp.sum(accepted, axis=1)
    k = xp.arange(K)[None, :]
    out = xp.where(k < n[:, None], DRAFT, xp.where(k == n[:, None], NEW, -1))
    return out, xp.clip(n + 1, None, K)


def kv_indices(xp, TABLE, REQ, START, OUT, B):
    out = OUT + 0
    for b in range(B):
        out[START[b] : START[b + 1]] = TABLE[REQ[b], : START[b + 1] - START[b]]
    return out


def silu_mul_quant_fp8(xp, X, M, N, G):
    y = (X[:, :N] * _sigmoid(xp, X[:, :N]) * X[:, N:]).reshape(M, G, 128)
    s = xp.clip(xp.amax(xp.abs(y), axis=2), 1e-10, None) / 448
    return _e4m3(xp, y / s[:, :, None]).reshape(M, N), s


def fp8_block_scaled_product(xp, A, SA, B, SB, M, N, K, KB, NB):
    def values(bits):
        e, m = (bits >> 3) & 15, bits & 7
        x = xp.where(e > 0, 2.0 ** (e * 1.0 - 7) * (1 + m / 8), m * 2.0**-9)
        return xp.where(bits > 127, -x, x)

    a = (values(A).reshape(M, KB, 128) * SA[:, :, None]).reshape(M, K)
    b = values(B).reshape(NB, 128, KB, 128) * SB[:, None, :, None]
    return a @ b.reshape(N, K).T


def block_diagonal_attention(xp, Q, KEY, VAL, DOC, scale):
    s = xp.where(DOC[:, None] == DOC[None, :], Q @ xp.swapaxes(KEY, 1, 2) * scale, -xp.inf)
    p = xp.exp(s - xp.amax(s, axis=2, keepdims=True))
    return (p / xp.sum(p, axis=2, keepdims=True)) @ VAL


def bgmv_shrink(xp, X, A, ID, scale):
    return xp.einsum("trk,tk->tr", A[ID], X) * scale


def interleaved_swiglu(xp, X, alpha, limit):
    gate, up = xp.clip(X[..., 0], None, limit), xp.clip(X[..., 1], -limit, limit)
    return gate / (1 + xp.exp(-alpha * gate)) * (up + 1)


def fp6_unpack(xp, X, S, M, N):
    x = xp.asarray(X, dtype=xp.int32).reshape(M, N // 4, 3)
    a, b, c = x[..., 0], x[..., 1], x[..., 2]
    code = xp.stack([a >> 2, (a & 3) << 4 | b >> 4, (b & 15) << 2 | c >> 6, c & 63], -1).reshape(M, N)
    power, part = (code >> 2) & 7, (code & 3) * 0.25
    value = xp.where(power == 0, part * 0.25, (1 + part) * xp.exp2(power - 3.0))
    return value * xp.where(code >> 5 != 0, -1.0, 1.0) * S[:, None]
