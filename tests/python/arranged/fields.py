"""What kernels of text, codecs and engines compute, as expected.py says it of others."""

import numpy as np

from expected import cdiv


# --- bytes -----------------------------------------------------------------------------------------------

SECOND = {  # first bytes whose second one has less than the whole range, and whether it is outside
    0xE0: lambda c: c < 0xA0,
    0xED: lambda c: c >= 0xA0,
    0xF0: lambda c: c < 0x90,
    0xF4: lambda c: c >= 0x90,
}


def is_wrong(text, i):
    c, one, two, three = (int(text[i - k]) if i >= k else 0 for k in range(4))
    must = 0xC2 <= one < 0xF5 or 0xE0 <= two < 0xF5 or 0xF0 <= three < 0xF5
    continues = 0x80 <= c < 0xC0
    return continues != must or c in (0xC0, 0xC1) or c >= 0xF5 or (must and SECOND.get(one, bool)(c))


def utf8_check(xp, TEXT, LEN, S, P):
    bad, chars = LEN.copy(), np.zeros(S, np.int32)
    for s, n in enumerate(LEN):
        wrong = [i for i in range(n) if is_wrong(TEXT[s], i)]
        if wrong:
            bad[s], chars[s] = wrong[0], -1
        else:
            chars[s] = sum(not 0x80 <= c < 0xC0 for c in TEXT[s, :n])
    return bad, chars


def run_lengths(xp, X, R, N):
    value, start = np.zeros((R, N), np.uint8), np.full((R, N + 1), N, np.int32)
    count = np.zeros(R, np.int32)
    for r in range(R):
        heads = [i for i in range(N) if i == 0 or X[r, i] != X[r, i - 1]]
        count[r] = len(heads)
        value[r, : len(heads)], start[r, : len(heads)] = X[r, heads], heads
    return value, start, count


def varint_decode(xp, X, R, N):
    values, how = np.zeros((R, N), np.int32), np.zeros(R, np.int32)
    for r in range(R):
        for end in np.nonzero(X[r] < 0x80)[0]:
            first = end
            while first > 0 and end - first < 4 and X[r, first - 1] >= 0x80:
                first -= 1
            number = sum((int(X[r, i]) & 127) << 7 * (i - first) for i in range(first, end + 1))
            number &= (1 << 32) - 1
            values[r, how[r]] = number >> 1 if number % 2 == 0 else -1 - (number >> 1)
            how[r] += 1
    return values, how


def lcs_bits(xp, PAT, TEXT, B, P, N):
    length, row = np.zeros(B, np.int32), np.zeros(B, np.uint64)
    for b in range(B):
        best = np.zeros((N + 1, P + 1), int)
        for j in range(N):
            for p in range(P):
                same = best[j, p] + 1 if PAT[p] == TEXT[j, b] else 0
                best[j + 1, p + 1] = max(best[j, p + 1], best[j + 1, p], same)
        length[b] = best[N, P]
        row[b] = sum(1 << p for p in range(P) if best[N, p + 1] == best[N, p])
    return length, row


# --- engines ---------------------------------------------------------------------------------------------


def lookback_sum(xp, X, N, T):
    y, parts = np.cumsum(X.astype(np.int64)), cdiv(N, T)
    return y, y[[min(N, (i + 1) * T) - 1 for i in range(parts)]], np.ones(parts, np.int32)


def verify_draft(xp, P, Q, DRAFT, U, R, NUM, B, K, V):
    token, accepted = np.full((B, K + 1), -1, np.int32), np.zeros(B, np.int32)
    p, q, u, r = (a.astype(np.float32) for a in (P, Q, U, R))
    for b in range(B):
        k = 0
        while k < NUM[b] and u[b, k] * q[b, k, DRAFT[b, k]] < p[b, k, DRAFT[b, k]]:
            token[b, k] = DRAFT[b, k]
            k += 1
        rest = np.maximum(p[b, k] - q[b, k], 0) if k < NUM[b] else p[b, k]
        token[b, k], accepted[b] = np.argmax(rest * r[b]), k
    return token, accepted


def cache_compact(xp, KEEP, K, POS, H, S, D):
    k, pos, left = K.copy(), POS.copy(), np.zeros(H, np.int32)
    for h in range(H):
        kept = np.nonzero(KEEP[h])[0]
        left[h] = len(kept)
        k[h, : len(kept)], pos[h, : len(kept)] = K[h, kept], POS[h, kept]
        pos[h, len(kept) :] = -1
    return k, pos, left


def kalman_tracks(xp, Z, SEEN, END, S, N):
    states, speed, spread = np.zeros((S, N)), np.zeros(N), np.zeros(N)
    move, measure = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([1.0, 0.0])
    for n in range(N):
        state, p = np.zeros(2), np.eye(2)
        for s in range(S):
            if s < END[n]:
                state, p = move @ state, move @ p @ move.T + 0.01 * np.eye(2)
                if SEEN[s, n]:
                    gain = p @ measure / (p[0, 0] + 0.5)
                    state = state + gain * (Z[s, n] - state[0])
                    p = p - np.outer(gain, measure @ p)
            states[s, n] = state[0]
        speed[n], spread[n] = state[1], p[0, 0]
    return states, speed, spread
