"""Random expressions: their text, and what they are by meaning.py."""

import random

import numpy as np

from meaning import BINDING, COMBINE, COUNTS, OPERATORS, REAL, TYPES, WHOLE
from meaning import bits, combined, convert, each, rest, shift, topk, value

TABLES = {
    "i32": ("TAB", [3, -1, 70, 0, 1000]),
    "f16": ("HALVES", [0.5, -2, 1e3]),
    "u8": ("BYTES", [0, 255, 7, 128]),
}


class Expression:
    """text, how tight it binds, type, extents; get(names) is its value."""

    def __init__(self, text, tight, t, shape, get):
        self.text, self.tight, self.t, self.shape, self.get = text, tight, t, tuple(shape), get

    def within(self, tight):
        """The text as an operand of something that binds so tight."""
        return self.text if self.tight >= tight else f"({self.text})"


def call(text, t, shape, get):
    return Expression(text, 99, t, shape, get)


class Expressions:
    def __init__(self, seed):
        self.random = random.Random(seed)
        self.scope = []  # name, type, extents, whether it may be assigned
        self.tensors = {}  # name: type, whether it is written
        self.in_function = False

    def chance(self, percent):
        return self.random.random() * 100 < percent

    def one_of(self, *things):
        return self.random.choice(things)

    def some_type(self):
        return self.one_of("i32", "i32", *TYPES)

    def some_shape(self):
        return self.one_of((), (), (4,), (5,), (8,), (3, 4), (4, 1), (1, 5), (2, 3, 2), (16,))

    def expression(self, t, shape, depth):
        if depth <= 0:
            return self.leaf(t, shape)
        ways = [self.binary] * 5 + [
            self.converted,
            self.unary,
            self.chosen,
            self.reduced,
            self.leaf,
            self.constant,
        ]
        ways += [self.combined, self.table, self.pattern, self.counted]
        if shape:
            ways += [self.scanned, self.sorted, self.gathered, self.topk]
            ways += [self.part, self.place, self.joined, self.moved, self.product]
        return self.random.choice(ways)(t, shape, depth - 1) or self.leaf(t, shape)

    # --- leaves

    def leaf(self, t, shape, depth=0):
        names = [v[0] for v in self.scope if v[1] == t and v[2] == shape]
        if names and self.chance(80):
            name = self.random.choice(names[-8:])
            return call(name, t, shape, lambda e: e[name])
        if not shape:
            return self.literal(t)
        if len(shape) == 1 and self.chance(40):
            start = self.random.randint(-3, 3)
            text = f"arange({shape[0]}{f', start = {start}' if start else ''})"
            return self.convert(call(text, "index", shape, lambda e: np.arange(start, start + shape[0])), t)
        loaded = self.load(t, shape) if t in ("i32", "u8", "f32") and self.chance(50) else None
        if loaded:
            return loaded
        x = self.literal(t)
        text = f"full([{', '.join(map(str, shape))}], {x.text}, {t})"
        return call(text, t, shape, lambda e: np.full(shape, x.get(e)))

    def literal(self, t):
        if t in REAL:
            v = self.one_of(0.0, 1.0, -1.5, 2.0, 100.0, 0.25, -7.0)
        elif t == "bool":
            v = self.chance(50)
        else:
            top = 1 << (bits(t) - 1)
            v = self.one_of(
                0,
                1,
                2,
                3,
                5,
                7,
                8,
                31,
                100,
                *((255, top, 2 * top - 1) if t[0] == "u" else (-1, -2, 1 - top, -top)),
            )
            v = self.one_of(0, 1, 2, 3, 7, -1, -5, 40) if t == "index" else v
        text = str(v).lower() if t == "bool" else f"{t}({v})"
        return call(text, t, (), lambda e: value(v, t))

    def constant(self, t, shape, depth):
        """A tree of constants without a type, which the compiler folds."""
        if shape or t not in WHOLE:
            return None
        text, _, v = self.folded(3)
        lo, hi = (-60, 60) if t == "index" else (np.iinfo(TYPES[t]).min, np.iinfo(TYPES[t]).max)
        return call(f"{t}({text})", t, (), lambda e: value(v, t)) if lo <= v <= hi else None

    def folded(self, depth):
        if not depth:
            v = self.random.randint(0, 40)
            return self.one_of(str(v), hex(v), bin(v)), 99, v
        (a, p, x), (b, q, y) = (self.folded(self.random.randrange(depth)) for _ in range(2))
        o = self.one_of("+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "min", "max", "cdiv")
        if o == "cdiv" and x >= 0 and y > 0:
            return f"cdiv({a}, {b})", 99, -(-x // y)
        if o in ("min", "max"):
            return f"{o}({a}, {b})", 99, min(x, y) if o == "min" else max(x, y)
        if o == "cdiv" or (o in "/%" and not y) or (o in ("<<", ">>") and not 0 <= y < 12):
            o = "-"
        v = x * y if o == "*" else int(OPERATORS[o](np.array(x), np.array(y)))
        tight = BINDING[o]
        text = f"{a if p >= tight else f'({a})'} {o} {b if q > tight else f'({b})'}"
        return (text, tight, v) if abs(v) < 1 << 40 else ("7", 99, 7)

    # --- element by element

    def convert(self, x, to):
        if x.t == to:
            return x
        if x.t in WHOLE and to == "index":  # positions stay small
            get = lambda e: rest(convert(x.get(e), x.t, to), value(50, to))
            return Expression(f"index({x.text}) % 50", 10, to, x.shape, get)
        if x.t in REAL and to == "index":
            get = lambda e: convert(np.clip(x.get(e), -9, 9), x.t, to)
            return call(f"index(clamp({x.text}, -9.0, 9.0))", to, x.shape, get)
        text = f"{to}({x.text})" if self.chance(80) else f"cast({x.text}, {to})"
        return call(text, to, x.shape, lambda e: convert(x.get(e), x.t, to))

    def converted(self, t, shape, depth):
        return self.convert(self.expression(self.some_type(), shape, depth), t)

    def beside(self, t, shape, depth):
        """An operand that goes with the extents, perhaps repeated."""
        if shape and self.chance(20):
            shape = () if self.chance(50) else tuple(1 if self.chance(40) else n for n in shape)
        return self.expression(t, shape, depth)

    def untyped(self, t):
        if t in REAL:
            v = self.one_of("0.5", "2.0", "3")
            return call(v, t, (), lambda e: value(float(v), t))
        text, tight, v = self.one_of(
            ("1", 99, 1),
            ("0x7", 99, 7),
            ("2*3", 10, 6),
            ("10 - 1", 9, 9),
            ("1 << 4", 8, 16),
            ("5 & 3", 5, 1),
            ("1_00", 99, 100),
        )
        return Expression(text, tight, t, (), lambda e: value(v, t))

    def both(self, t, shape, depth):
        a = self.beside(t, shape, depth)
        b = self.beside(t, shape, depth) if a.shape == shape else self.expression(t, shape, depth)
        if a.shape == shape and t != "bool" and self.chance(25):
            return a, self.untyped(t)
        return (b, a) if self.chance(50) else (a, b)

    def joint(self, o, t, a, b, shape):
        tight = BINDING[o]
        get = lambda e: np.asarray(OPERATORS[o](np.asarray(a.get(e)), np.asarray(b.get(e))))
        return Expression(f"{a.within(tight)} {o} {b.within(tight + 0.5)}", tight, t, shape, get)

    def binary(self, t, shape, depth):
        if t == "bool" and self.chance(55):  # a comparison is no operand of another without brackets
            a, b = self.both(self.one_of(*WHOLE, *REAL), shape, depth)
            a, b = (x if x.tight >= 8 else call(f"({x.text})", x.t, x.shape, x.get) for x in (a, b))
            return self.joint(self.one_of("==", "!=", "<", "<=", ">", ">="), t, a, b, shape)
        a, b = self.both(t, shape, depth)
        if t == "bool":
            return self.joint(self.one_of("&&", "||", "^", "&", "|", "==", "!="), t, a, b, shape)
        if self.chance(15):
            name, f = self.one_of(("max", np.maximum), ("min", np.minimum))
            return call(f"{name}({a.text}, {b.text})", t, shape, lambda e: f(a.get(e), b.get(e)))
        if t in REAL:  # `abs`, because a sum of a product may be rounded once
            if self.chance(30):
                text = f"abs({a.within(10)} * {b.within(10.5)})"
                return call(text, t, shape, lambda e: np.abs(a.get(e) * b.get(e)))
            return self.joint(self.one_of("+", "-"), t, a, b, shape)
        o = self.one_of("+", "-", "/", "%", "&", ">>", *(("*", "|", "^", "<<") if t != "index" else ()))
        return self.joint(o, t, a, b, shape)

    def unary(self, t, shape, depth):
        x = self.expression(t, shape, depth)
        way = self.random.randrange(4)
        if t == "bool":
            return Expression("!" + x.within(11), 11, t, shape, lambda e: np.logical_not(x.get(e)))
        if way == 0:
            return call(f"abs({x.text})", t, shape, lambda e: np.abs(x.get(e)))
        if way == 1 or t in REAL or t == "index":
            return Expression(
                "-" + x.within(11),
                11,
                t,
                shape,
                lambda e: np.zeros_like(x.get(e)) - x.get(e) if t in WHOLE else -np.asarray(x.get(e)),
            )
        if way == 2:
            return Expression("~" + x.within(11), 11, t, shape, lambda e: np.invert(x.get(e)))
        y, z = self.expression(t, shape, depth), self.expression(t, shape, depth)
        return call(
            f"fma({x.text}, {y.text}, {z.text})",
            t,
            shape,
            lambda e: np.asarray(x.get(e)) * y.get(e) + z.get(e),
        )

    def chosen(self, t, shape, depth):
        a, b = self.both(t, shape, depth)
        if self.chance(60):
            c = self.beside("bool", shape, depth)
            text = f"where({c.text}, {a.text}, {b.text})"
            return call(text, t, shape, lambda e: np.where(c.get(e), a.get(e), b.get(e)))
        c = self.expression("bool", (), depth)  # with `w`, for a constant condition chooses a side alone
        text = f"{c.within(7)} == (w >= 0) ? {a.within(1)} : {b.within(1)}"
        return Expression(text, 0, t, shape, lambda e: np.where(c.get(e), a.get(e), b.get(e)))

    def pattern(self, t, shape, depth):
        others = [k for k in WHOLE if "index" not in (k, t) and t in WHOLE and k != t and bits(k) == bits(t)]
        if not others:
            return None
        x = self.expression(others[0], shape, depth)
        return call(f"bitcast({x.text}, {t})", t, shape, lambda e: np.asarray(x.get(e)).astype(TYPES[t]))

    def counted(self, t, shape, depth):
        if t != "i32":
            return None
        name, source = self.one_of(*COUNTS), self.one_of(*list(WHOLE)[:-1])
        x = self.expression(source, shape, depth)
        return call(
            f"{name}({x.text})",
            t,
            shape,
            lambda e: each(lambda v: COUNTS[name](v, bits(source)), x.get(e), t),
        )

    def table(self, t, shape, depth):
        if t not in TABLES:
            return None
        name, entries = TABLES[t]
        i = self.expression(self.one_of("i32", "index", "u8", "i64"), shape, depth)
        # not one constant, which has to be in range
        i = call(f"{i.within(9)} + {i.t}(w - w)", i.t, shape, i.get)
        return call(
            f"{name}[{i.text}]",
            t,
            shape,
            lambda e: each(lambda k: entries[k] if 0 <= k < len(entries) else 0, i.get(e), t),
        )

    # --- along an axis

    def reduced(self, t, shape, depth):
        if len(shape) > 2:
            return None
        axis, n = self.random.randint(0, len(shape)), self.one_of(1, 2, 3, 5, 8)
        full = shape[:axis] + (n,) + shape[axis:]
        source, names, wide = t, {"max": np.max, "min": np.min}, {}
        if t == "bool":
            names = {"any": np.any, "all": np.all}
        elif t == "i32" and self.chance(25):
            source, names = self.one_of(*WHOLE, *REAL), {"argmax": np.argmax, "argmin": np.argmin}
        elif t in WHOLE and self.chance(60):
            names, wide = {"sum": np.sum} | ({"prod": np.prod} if t != "index" else {}), {"dtype": TYPES[t]}
        name = self.one_of(*names)
        x = self.expression(source, full, depth)
        text = f"{name}({x.text}, axis = {axis if self.chance(70) else axis - len(full)}, drop = true)"
        return call(
            text, t, shape, lambda e: np.asarray(names[name](x.get(e), axis=axis, **wide)).astype(TYPES[t])
        )

    def scanned(self, t, shape, depth):
        if t not in WHOLE:
            return None
        axis, back = self.random.randrange(len(shape)), self.chance(40)
        f = {"cumsum": np.add, "cummax": np.maximum} | ({"cumprod": np.multiply} if t != "index" else {})
        name = self.one_of(*f)
        x = self.expression(t, shape, depth)
        turned = lambda v: np.flip(v, axis) if back else v
        get = lambda e: turned(f[name].accumulate(turned(x.get(e)), axis=axis, dtype=TYPES[t]))
        return call(f"{name}({x.text}, axis = {axis}{', reverse = true' * back})", t, shape, get)

    def combined(self, t, shape, depth):
        if t not in WHOLE or t == "index":
            return None
        scan = bool(shape) and (len(shape) > 2 or self.chance(50))
        f = self.one_of(*COMBINE)
        count, part, back = COMBINE[f][0], self.random.randrange(COMBINE[f][0]), scan and self.chance(40)
        axis = self.random.randrange(len(shape)) if scan else self.random.randint(0, len(shape))
        full = shape if scan else shape[:axis] + (self.one_of(1, 2, 4, 7),) + shape[axis:]
        part = 1 if f == "runs" else part
        types = ["bool" if f == "runs" else t] + [t] * (count - 1)
        parts = [self.expression(k, full, depth) for k in types]
        given = parts[0].text if count == 1 else f"({', '.join(x.text for x in parts)})"
        text = f"{'scan' if scan else 'reduce'}({given}, axis = {axis}, combine = {f}"
        text += (
            f"{'' if scan else ', drop = true'}{', reverse = true' * back}){f'[{part}]' if count > 1 else ''}"
        )

        def get(e):
            steps = combined(f, [np.broadcast_to(x.get(e), full) for x in parts], axis, back)
            if not scan:
                return steps[-1][part]
            return np.stack([s[part] for s in (steps[::-1] if back else steps)], axis=axis)

        return call(text, t, shape, get)

    def sorted(self, t, shape, depth):
        if t == "bool":
            return None
        x, down = self.expression(t, shape, depth), self.chance(50)
        turned = lambda v: v[..., ::-1] if down else v
        return call(
            f"sort({x.text}{', descending = true' * down})",
            t,
            shape,
            lambda e: turned(np.sort(x.get(e), axis=-1)),
        )

    def topk(self, t, shape, depth):
        n = shape[-1] + self.random.randint(0, 3)
        if t == "bool" or n > 16:
            return None
        places = t == "i32" and self.chance(50)
        x = self.expression(self.one_of(*WHOLE, *REAL) if places else t, shape[:-1] + (n,), depth)
        return call(
            f"topk({x.text}, {shape[-1]})[{int(places)}]",
            t,
            shape,
            lambda e: topk(np.asarray(x.get(e)), shape[-1], places),
        )

    # --- shapes

    def part(self, t, shape, depth):
        axis, n = self.random.randrange(len(shape)), self.random.randint(2, 3)
        k = self.random.randrange(n)
        grown = lambda m: shape[:axis] + (m,) + shape[axis + 1 :]
        before = (slice(None),) * axis
        if self.chance(50):
            x = self.expression(t, grown(shape[axis] * n), depth)
            text = f"split({x.text}, {n}, axis = {axis})[{k}]"
            return call(text, t, shape, lambda e: np.split(x.get(e), n, axis=axis)[k])
        x = self.expression(t, grown(shape[axis] + n), depth)
        at = ", ".join(f"{k} +: {shape[axis]}" if a == axis else ":" for a in range(len(shape)))
        return call(
            f"{x.within(99)}[{at}]",
            t,
            shape,
            lambda e: np.asarray(x.get(e))[before + (slice(k, k + shape[axis]),)],
        )

    def place(self, t, shape, depth):
        """One position of an axis more, or an axis of extent 1 more."""
        if 1 in shape and len(shape) > 1 and self.chance(50):
            axis = shape.index(1)
            x = self.expression(t, shape[:axis] + shape[axis + 1 :], depth)
            at = ", ".join("None" if a == axis else ":" for a in range(len(shape)))
            return call(f"{x.within(99)}[{at}]", t, shape, lambda e: np.expand_dims(x.get(e), axis))
        if len(shape) > 2:
            return None
        axis, n = self.random.randint(0, len(shape)), self.random.randint(1, 4)
        k = self.random.randrange(n)
        x = self.expression(t, shape[:axis] + (n,) + shape[axis:], depth)
        at = ", ".join(str(k) if a == axis else ":" for a in range(len(shape) + 1))
        return call(f"{x.within(99)}[{at}]", t, shape, lambda e: np.take(x.get(e), k, axis=axis))

    def joined(self, t, shape, depth):
        axis = self.random.randrange(len(shape))
        if shape[axis] < 2:
            return None
        n = self.random.randint(1, shape[axis] - 1)
        x, y = (
            self.expression(t, shape[:axis] + (m,) + shape[axis + 1 :], depth) for m in (n, shape[axis] - n)
        )
        get = lambda e: np.concatenate([x.get(e), y.get(e)], axis=axis)
        return call(f"concat({x.text}, {y.text}, axis = {axis})", t, shape, get)

    def moved(self, t, shape, depth):
        way = self.random.randrange(3)
        if way == 0 and t != "bool":
            axis, n = self.random.randrange(len(shape)), self.random.randint(-3, 3)
            x = self.expression(t, shape, depth)
            return call(
                f"shift({x.text}, {n}, axis = {axis})",
                t,
                shape,
                lambda e: shift(np.asarray(x.get(e)), n, axis),
            )
        if way == 1 and len(shape) > 1:
            order = list(range(len(shape)))
            self.random.shuffle(order)
            x = self.expression(t, tuple(shape[order.index(a)] for a in range(len(shape))), depth)
            return call(
                f"permute({x.text}, ({', '.join(map(str, order))}))",
                t,
                shape,
                lambda e: np.transpose(x.get(e), order),
            )
        x = self.expression(t, (int(np.prod(shape)),), depth)
        return call(
            f"reshape({x.text}, [{', '.join(map(str, shape))}])",
            t,
            shape,
            lambda e: np.reshape(x.get(e), shape),
        )

    def product(self, t, shape, depth):
        if len(shape) != 2 or t not in ("i32", "f32"):
            return None
        k, types = self.one_of(1, 3, 8), (
            ("f16", "f16") if t == "f32" else self.one_of(("i8", "u8"), ("u8", "u8"), ("i8", "i8"))
        )
        a, b = self.expression(types[0], (shape[0], k), depth), self.expression(
            types[1], (k, shape[1]), depth
        )
        if t == "f32":  # small whole numbers, so that sums are exact
            a, b = (self.small(x) for x in (a, b))
        get = lambda e: np.asarray(a.get(e)).astype(TYPES[t]) @ np.asarray(b.get(e)).astype(TYPES[t])
        return call(f"mma({a.text}, {b.text})", t, shape, get)

    def small(self, x):
        get = lambda e: np.clip(convert(x.get(e), x.t, "i32"), -9, 9).astype(TYPES[x.t])
        return call(f"{x.t}(clamp(i32({x.text}), -9, 9))", x.t, x.shape, get)
