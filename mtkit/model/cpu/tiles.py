"""Matrix products for `mtkit.model.cpu.decoding`, in float32 or in 8-bit integers: x W^T + b, for any number of rows.

A product consists of tiles: ROWS rows of x times PANEL outputs, whose sums stay in vector registers while a loop goes
over the inputs. numba's own loops do not keep the sums there, and they do not use the processor's instructions for
products of integers. We therefore write a tile in LLVM's language, which numba compiles to machine code.

With VNNI, an instruction multiplies four times as many 8-bit integers as float32 numbers. Other processors multiply
them as 16-bit integers, twice as many as float32. Both add up integers, so the sums are the same.

Each sum adds its products one input after the other for any number of rows, so a row's result does not depend on the
other rows, to the last bit.
"""

import platform

import numpy as np
from llvmlite import binding, ir
from numba import njit, types
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

PLAIN, RELU, ADD = 0, 1, 2  # store a sum, store its positive part, or add it

_FEATURES = binding.get_host_cpu_features()
HAS_FLOATS = bool(_FEATURES.get("avx2") and _FEATURES.get("fma")) or platform.machine() in ("aarch64", "arm64")
# 24 vectors of sums, or 12 of AVX2's 16 registers, leave room for the weights and for one number of x.
_WIDTH = 16 if _FEATURES.get("avx512f") else 8 if _FEATURES.get("avx2") else 4  # numbers in a vector
_VECTORS = 2 if _WIDTH == 8 else 4  # across a panel
ROWS = 6
PANEL = _WIDTH * _VECTORS  # outputs whose weights lie together
STEP = 4  # bytes of weights and of x for each output and round: a float32, or as many integers as fit
_HAS_BYTES = _FEATURES.get("avx512vnni") or _FEATURES.get("avxvnni")
_HAS_PAIRS = _FEATURES.get("avx512bw") if _WIDTH == 16 else _FEATURES.get("avx2")
# The types of x in products of 8-bit integers that the processor has instructions for, the fastest first.
INTEGERS = tuple(kind for kind, has in ((np.uint8, _HAS_BYTES), (np.int16, _HAS_PAIRS)) if has)

_INT, _LONG, _FLOAT = ir.IntType(32), ir.IntType(64), ir.FloatType()
_FLOATS = ir.VectorType(_FLOAT, _WIDTH)
_COLUMNS = range(0, STEP * PANEL, STEP * _WIDTH)  # where the vectors of a panel begin, in bytes


def _make_tile(n_rows, kind):
    """Return a function for kernels that computes n_rows rows of a panel; kind: the type of x.

    Its arguments are addresses and numbers of bytes, all int64: x and the stride of its rows; the panel, and how often
    to go on by STEP bytes; out and the stride of its rows; the panel's bias; for integers also the scales of the rows,
    and the scales and the offsets (int32) of the outputs; PLAIN, RELU or ADD.
    """

    @intrinsic
    def tile(_context, x, x_stride, panel, n_rounds, out, out_stride, bias, row_scales, scales, offsets, end):
        def generate(_, builder, _signature, arguments):
            emit = _Emitter(builder)
            x, x_stride, panel, n_rounds, out, out_stride, bias, *numbers, end = arguments
            rows = [emit.step(x, x_stride, row) for row in range(n_rows)]
            totals = _add_up(emit, rows, panel, n_rounds, kind)
            targets = [emit.step(out, out_stride, row) for row in range(n_rows)]
            _put_out(emit, totals, targets, bias, numbers if kind != np.float32 else None, end)
            return ir.Constant(_LONG, 0)

        return types.int64(*[types.int64] * 11), generate

    return tile


def _add_up(emit, rows, panel, n_rounds, kind):
    """Emit the loop over the inputs; return the sums of each row (an address) of x, in vectors across the panel."""
    builder, number = emit.builder, _INT if kind != np.float32 else _FLOAT
    sums = ir.VectorType(number, _WIDTH)
    before, loop, after = builder.block, builder.append_basic_block(), builder.append_basic_block()
    builder.branch(loop)
    builder.position_at_end(loop)
    i = builder.phi(_LONG)
    i.add_incoming(_LONG(0), before)
    running = [[builder.phi(sums) for _ in _COLUMNS] for _ in rows]
    weights = builder.add(panel, builder.mul(i, _LONG(STEP * PANEL)))
    vectors = [emit.load(weights, sums, column, align=4 * _WIDTH) for column in _COLUMNS]
    totals = []
    for row, own in zip(rows, running, strict=True):
        value = emit.repeat(emit.load(emit.step(row, i, STEP), number))
        totals.append([emit.multiply_add(kind, total, value, w) for total, w in zip(own, vectors, strict=True)])
    following = builder.add(i, _LONG(1))
    i.add_incoming(following, loop)
    for own, new in zip(running, totals, strict=True):
        for one, total in zip(own, new, strict=True):
            one.add_incoming(sums([number(0)] * _WIDTH), before)
            one.add_incoming(total, loop)
    builder.cbranch(builder.icmp_signed("<", following, n_rounds), loop, after)
    builder.position_at_end(after)
    return totals


def _put_out(emit, totals, targets, bias, numbers, end):
    """Emit what follows the loop: scale the sums of integers, add the bias, and store, or whatever end says.

    targets: the address of each row of out. numbers: for integers the addresses of the rows' scales, and of the
    outputs' scales and offsets, else None.
    """
    builder = emit.builder
    is_relu, is_add = (builder.icmp_signed("==", end, _LONG(kind)) for kind in (RELU, ADD))
    nothing = _FLOATS([_FLOAT(0)] * _WIDTH)
    for vector, column in enumerate(_COLUMNS):
        added = emit.load(bias, _FLOATS, column)
        for row, target in enumerate(targets):
            y = totals[row][vector]
            if numbers is not None:
                row_scales, scales, offsets = numbers
                y = builder.sitofp(builder.sub(y, emit.load(offsets, y.type, column)), _FLOATS)
                scale = emit.repeat(emit.load(row_scales, _FLOAT, STEP * row))
                y = builder.fmul(y, builder.fmul(scale, emit.load(scales, _FLOATS, column)))
            y = builder.fadd(y, added)
            place = emit.pointer(target, _FLOATS, column)
            # "not above 0" would turn NaN into 0
            y = builder.select(is_relu, builder.select(builder.fcmp_ordered("<", y, nothing), nothing, y), y)
            y = builder.select(is_add, builder.fadd(y, builder.load(place, align=4)), y)
            builder.store(y, place, align=4)


class _Emitter:
    """Adds common sequences of LLVM instructions at the builder's position."""

    def __init__(self, builder):
        self.builder = builder

    def step(self, address, stride, times):
        """Return address + stride x times; stride is a value, times a value or a number."""
        times = _LONG(times) if isinstance(times, int) else times
        return self.builder.add(address, self.builder.mul(stride, times))

    def pointer(self, address, kind, offset):
        return self.builder.inttoptr(self.builder.add(address, _LONG(offset)), kind.as_pointer())

    def load(self, address, kind, offset=0, align=4):
        return self.builder.load(self.pointer(address, kind, offset), align=align)

    def multiply_add(self, kind, total, x, weights):
        """Return total plus the products of x and weights, vectors whose numbers are STEP bytes of this type each."""
        sums = total.type
        if kind == np.float32:
            return self._call(f"llvm.fma.v{_WIDTH}f32", sums, x, weights, total)
        if kind == np.uint8:
            return self._call(f"llvm.x86.avx512.vpdpbusd.{32 * _WIDTH}", sums, total, x, weights)
        pairs = ir.VectorType(ir.IntType(16), 2 * _WIDTH)
        name = "llvm.x86.avx512.pmaddw.d.512" if _WIDTH == 16 else "llvm.x86.avx2.pmadd.wd"
        products = self._call(name, sums, self.builder.bitcast(x, pairs), self.builder.bitcast(weights, pairs))
        return self.builder.add(total, products)

    def _call(self, name, result, *arguments):
        """Return the result of an instruction that LLVM knows by this name."""
        function = self.builder.module.globals.get(name)
        if function is None:
            kind = ir.FunctionType(result, [argument.type for argument in arguments])
            function = ir.Function(self.builder.module, kind, name)
        return self.builder.call(function, arguments)

    def repeat(self, number):
        """Return a vector of this number."""
        kind = ir.VectorType(number.type, _WIDTH)
        first = self.builder.insert_element(kind(ir.Undefined), number, _INT(0))
        places = ir.VectorType(_INT, _WIDTH)([_INT(0)] * _WIDTH)
        return self.builder.shuffle_vector(first, kind(ir.Undefined), places)


def _make_multiply(kind):
    one, two, three, four, five, six = (_make_tile(n_rows, kind) for n_rows in range(1, ROWS + 1))

    @njit
    def product(x, row_scales, n, weights, numbers, entry, out, end):
        stride, out_stride, rounds = np.int64(x.strides[0]), np.int64(out.strides[0]), entry[2]
        size = STEP * PANEL  # bytes of a panel's float32 numbers, such as its bias, and of a row of it in out
        scales = np.int64(row_scales.ctypes.data)
        for p in range(entry[3]):
            panel = np.int64(weights.ctypes.data) + entry[0] + p * rounds * size
            bias = np.int64(numbers.ctypes.data) + STEP * entry[1] + p * size
            of_outputs = bias + entry[3] * size
            offsets = of_outputs + entry[3] * size
            result = np.int64(out.ctypes.data) + p * size
            for i in range(0, n, ROWS):
                given, to = np.int64(x.ctypes.data) + i * stride, result + i * out_stride
                scale, left = scales + STEP * i, n - i
                if left >= 6:
                    six(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)
                elif left == 1:
                    one(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)
                elif left == 2:
                    two(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)
                elif left == 3:
                    three(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)
                elif left == 4:
                    four(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)
                else:
                    five(given, stride, panel, rounds, to, out_stride, bias, scale, of_outputs, offsets, end)

    return product


_multiply_floats = _make_multiply(np.float32)
_multiply_bytes, _multiply_pairs = _make_multiply(np.uint8), _make_multiply(np.int16)


def multiply(x, row_scales, n, weights, numbers, entry, out, end):
    """Compute a product for the first n rows of x: float32, or of a type in INTEGERS with a scale for each row.

    weights, numbers, entry: of `mtkit.model.cpu.packing`. out: (n or more, whole panels), float32. end: PLAIN, RELU or
    ADD.
    """


@overload(multiply)
def _multiply_overload(x, row_scales, n, weights, numbers, entry, out, end):
    if x.dtype == types.uint8:
        return lambda x, row_scales, n, weights, numbers, entry, out, end: _multiply_bytes(
            x, row_scales, n, weights, numbers, entry, out, end
        )
    if x.dtype == types.int16:
        return lambda x, row_scales, n, weights, numbers, entry, out, end: _multiply_pairs(
            x, row_scales, n, weights, numbers, entry, out, end
        )
    if x.dtype == types.float32:
        return lambda x, row_scales, n, weights, numbers, entry, out, end: _multiply_floats(
            x, row_scales, n, weights, numbers, entry, out, end
        )
    raise TypingError(f"no product for {x.dtype}")
