"""Recurrences, losses, samplers and packed formats of inference engines; batched solvers and statistics."""

import functools


def single(xp, x):
    """x rounded to f32, for references that round where their kernels do."""
    return xp.asarray(x, dtype=xp.float32)


def rwkv7_recurrent(xp, R, W, KEY, VAL, A, G, STATE, T):
    s, out = STATE, []
    for t in range(T):
        turned = xp.sum(s * A[:, t, :, None, :], -1)[..., None] * G[:, t, :, None, :] * 0.1
        added = VAL[:, t, :, :, None] * KEY[:, t, :, None, :]
        s = s * xp.exp(-xp.exp(W[:, t]))[:, :, None, :] + turned + added
        out.append(xp.sum(s * R[:, t, :, None, :], -1))
    return s, xp.stack(out, 1)


def ssd_chunk_state(xp, X, BM, DT, A, T, C):
    states = []
    for first in range(0, T, C):
        dt = DT[:, first : first + C]
        upto = xp.cumsum(dt * A * 0.2, 1)
        weight = xp.exp(upto[:, -1:] - upto) * dt
        x, b = X[:, first : first + C], BM[:, first : first + C]
        states.append(xp.einsum("bthp,btn,bth->bhpn", x, b, weight))
    return xp.stack(states, 1)


def ssd_state_passing(xp, S, DA, INIT, C):
    s, out = INIT, []
    for c in range(C):
        out.append(s)
        s = s * xp.exp(-abs(DA[:, :, c]))[..., None] + S[:, c]
    return xp.stack(out, 1), s


def grpo_loss(xp, LOGITS, OLD, REF, ID, MASK, ADV, temperature, low, high, beta):
    x = LOGITS / temperature
    most = xp.amax(x, -1)
    lse = most + xp.log(xp.sum(xp.exp(x - most[..., None]), -1))
    logp = xp.take_along_axis(x, ID[..., None], -1)[..., 0] - lse
    kl = xp.exp(REF - logp) - (REF - logp) - 1
    ratio, gain, keep = xp.exp(logp - OLD), ADV[:, None], MASK != 0
    loss = beta * kl - xp.minimum(ratio * gain, xp.clip(ratio, 1 - low, 1 + high) * gain)
    clipped = keep & ((ratio < 1 - low) & (gain < 0) | (ratio > 1 + high) & (gain > 0))
    return xp.where(keep, loss, 0.0), xp.where(keep, kl, 0.0), lse, clipped


def rotary_cache_partial(xp, Q, KEY, POS, CS, R):
    c, s = CS[POS][:, None, : R // 2], CS[POS][:, None, R // 2 :]
    turned = []
    for x in (Q, KEY):
        a, b = x[..., : R // 2], x[..., R // 2 : R]
        turned.append(xp.concatenate([a * c - b * s, b * c + a * s, x[..., R:]], -1))
    return turned


def merge_many_states(xp, V, S):
    most = xp.amax(S, 1)
    weight = xp.exp2(S - most[:, None])
    total = xp.sum(weight, 1)
    return xp.sum(V * weight[..., None], 1) / total[..., None], most + xp.log2(total)


def top_p_sampling(xp, X, U, p, M, V):
    """Rounds of a draw among the tokens above a pivot; sums of whole numbers, which f32 holds exactly."""
    x, ids, accepted = xp.floor(X * 64), [], []
    for r in range(M):
        total = mass = xp.sum(x[r])
        low, ok, token = 0.0, False, -1
        for u in U[r]:
            if ok:
                break
            kept = xp.where(x[r] > low, x[r], 0.0)
            reached = (xp.cumsum(kept, 0) > single(xp, u) * single(xp, mass)) & (kept > 0)
            place = xp.arange(V)
            token = int(min(place[reached], default=max(place[kept > 0], default=-1)))
            low = x[r, token] if token >= 0 else 0.0
            mass = xp.sum(xp.where(x[r] > low, x[r], 0.0))
            ok = bool(single(xp, mass) < single(xp, p) * single(xp, total))
        ids.append(token)
        accepted.append(ok)
    return xp.asarray(ids), xp.asarray(accepted)


def nvfp4_quantize(xp, X, M, N):
    """Codes depend on roundings, so this computes in f32 as the kernel does."""
    block, scale = xp.asarray(X, dtype=xp.float32).reshape(M, N // 16, 16), single(xp, 1.5)
    codes = xp.arange(127)
    exponent, fraction = codes >> 3, codes & 7
    values = xp.where(exponent == 0, fraction / 512, (1 + fraction / 8) * xp.exp2(exponent - 7.0))
    wanted = xp.amax(abs(block), -1) / single(xp, 6) * scale
    off = abs(values - wanted[..., None]) + (codes & 1) * 1e-12  # of two that are as near, the even one
    s8 = xp.argmin(off, -1)
    s = (xp.asarray(values[s8], dtype=xp.float32) / scale)[..., None]
    y = xp.where(s > 0, block / xp.where(s > 0, s, 1), 0)
    a = abs(y)
    code = sum((a > b) * 1 for b in (0.25, 1.25, 2.5, 5.0)) + sum((a >= b) * 1 for b in (0.75, 1.75, 3.5))
    code = (code + (y < 0) * 8).reshape(M, N // 2, 2)
    return code[..., 0] + code[..., 1] * 16, s8


def int4_tinygemm(xp, X, W, SZ, N, K):
    code = xp.stack([W & 15, W >> 4], -1).reshape(N, K) * 1.0 - 8
    scale = xp.stack([SZ] * 32, 1).reshape(K, N, 2)
    return X @ (code.T * scale[..., 0] + scale[..., 1])


def sgmv_expand(xp, X, WT, SEG, ID, Y, scale, S, W):
    y = Y * 1
    for s in range(S):
        if 0 <= ID[s] < W:
            y[SEG[s] : SEG[s + 1]] += X[SEG[s] : SEG[s + 1]] @ WT[ID[s]].T * scale
    return y


def pcr_tridiagonal(xp, A, B, C, D, N):
    at = xp.arange(N)
    below, above = at[:, None] == at[None, :] + 1, at[:, None] + 1 == at[None, :]
    matrix = xp.where(at[:, None] == at[None, :], (B + 8)[:, :, None], 0.0)
    matrix = matrix + xp.where(below, A[:, :, None], 0.0) + xp.where(above, C[:, :, None], 0.0)
    return xp.linalg.solve(matrix, D[..., None])[..., 0]


def cholesky_block(xp, A, N):
    return xp.linalg.cholesky(A @ xp.moveaxis(A, 1, 2) + xp.eye(N))


def multigrid_prolong(xp, E, U, H, W):
    e = xp.pad(E, ((0, 1), (0, 1)))
    here, right, below, corner = e[:-1, :-1], e[:-1, 1:], e[1:, :-1], e[1:, 1:]
    even = xp.stack([here, 0.5 * (here + right)], -1).reshape(H, 2 * W)
    odd = xp.stack([0.5 * (here + below), 0.25 * (here + right + below + corner)], -1).reshape(H, 2 * W)
    return U + xp.stack([even, odd], 1).reshape(2 * H, 2 * W)


def dtw(xp, X, Y, B, N, M):
    cost = [[xp.zeros((B,)) + (0.0 if i == j == 0 else xp.inf) for j in range(M + 1)] for i in range(N + 1)]
    for i in range(N):
        for j in range(M):
            best = xp.minimum(xp.minimum(cost[i][j], cost[i + 1][j]), cost[i][j + 1])
            cost[i + 1][j + 1] = (X[:, i] - Y[:, j]) ** 2 + best
    return cost[N][M]


def ctc_forward(xp, LOGP, Y, B, T, L):
    label, scores, places = [[0] * (2 * L + 1) for _ in range(B)], [], range(2 * L + 1)
    for b in range(B):
        label[b][1::2] = [int(y) for y in Y[b]]
        a = [LOGP[b, 0, label[b][s]] - (0 if s < 2 else xp.inf) for s in places]
        for t in range(1, T):
            skips = [s > 1 and s % 2 and label[b][s] != label[b][s - 2] for s in places]
            ways = [a[max(s - 2 if skips[s] else s - 1, 0) : s + 1] for s in places]
            a = [functools.reduce(xp.logaddexp, w) + LOGP[b, t, label[b][s]] for s, w in enumerate(ways)]
        scores.append(-xp.logaddexp(a[-1], a[-2]))
    return xp.asarray(scores)


def queens(xp, N):
    def below(row, columns, left, right):
        if row == N:
            return 1
        free = [1 << c for c in range(N) if not (1 << c) & (columns | left | right)]
        return sum(below(row + 1, columns | b, (left | b) << 1, (right | b) >> 1) for b in free)

    return xp.asarray([below(1, 1 << q, 2 << q, (1 << q) >> 1) for q in range(N)])


def edit_distance(xp, X, Y, B, N, M):
    row = [xp.zeros((B,), dtype=xp.int64) + j for j in range(M + 1)]
    for i in range(N):
        following = [row[0] * 0 + i + 1]
        for j in range(M):
            changed = row[j] + (X[:, i] != Y[:, j])
            following.append(xp.minimum(xp.minimum(row[j + 1], following[j]) + 1, changed))
        row = following
    return row[M]


def batch_norm_statistics(xp, X, RUN, momentum, B, L):
    mean = X.mean((0, 2))
    spread = ((X - mean[:, None]) ** 2).mean((0, 2))
    unbiased = spread * (B * L / max(B * L - 1, 1))
    run = RUN * (1 - momentum) + momentum * xp.stack([mean, unbiased], 1)
    return run, mean, 1 / xp.sqrt(spread + 1e-5)
