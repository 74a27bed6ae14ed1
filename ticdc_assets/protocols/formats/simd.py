"""Vector operations on 32 bytes for compiled loops; most strings of a row are shorter.

Numba has no vector types, so each function is given as LLVM instructions. Its Python body has the same result and runs
without compilation (`NUMBA_DISABLE_JIT`). Bounds are not checked: at least VECTOR bytes must follow every offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from ticdc_assets.protocols.formats.jit import inlined
from ticdc_assets.protocols.formats.string_arrays import Bytes, Mask

VECTOR: Final = 32
"""The number of bytes per operation; bit n of a result is for the byte at offset n."""

_F = TypeVar("_F", bound=Callable[..., Any])

# -- instructions ------------------------------------------------------------------------------------------------------

_BYTE: Final = ir.IntType(8)
_BYTES: Final = ir.VectorType(_BYTE, VECTOR)
_PLACES: Final = ir.VectorType(ir.IntType(32), VECTOR)
_MASK: Final = ir.IntType(VECTOR)
_BITS: Final = ir.IntType(64)


def _where(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    data = context.make_array(array_type)(context, builder, array).data
    return builder.bitcast(builder.gep(data, [at]), _BYTES.as_pointer())


def _loaded(context: Any, builder: Any, array_type: Any, array: Any, at: Any) -> Any:
    there = builder.load(_where(context, builder, array_type, array, at))
    there.align = 1
    return there


def _everywhere(builder: Any, number: Any) -> Any:
    one = builder.insert_element(ir.Constant(_BYTES, ir.Undefined), builder.trunc(number, _BYTE), _PLACES.element(0))
    return builder.shuffle_vector(one, ir.Constant(_BYTES, ir.Undefined), ir.Constant(_PLACES, None))


def _mask(builder: Any, found: Any) -> Any:
    return builder.zext(builder.bitcast(found, _MASK), _BITS)


def _intrinsic(function: Callable[..., Any]) -> Any:
    return intrinsic(function)


def _compared(operator: str) -> Any:
    @_intrinsic
    def with_byte(_: Any, data: Any, at: Any, byte: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            there = _loaded(context, builder, signature.args[0], *given[:2])
            return _mask(builder, builder.icmp_unsigned(operator, there, _everywhere(builder, given[2])))

        return types.int64(data, types.int64, types.int64), build

    return with_byte


@_intrinsic
def _differing(_: Any, data: Any, at: Any, other: Any, start: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        one = _loaded(context, builder, signature.args[0], *given[:2])
        two = _loaded(context, builder, signature.args[2], *given[2:])
        return _mask(builder, builder.icmp_unsigned("!=", one, two))

    return types.int64(data, types.int64, other, types.int64), build


@_intrinsic
def _copied(_: Any, data: Any, at: Any, into: Any, place: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        there = _loaded(context, builder, signature.args[0], *given[:2])
        builder.store(there, _where(context, builder, signature.args[2], *given[2:])).align = 1
        return context.get_dummy_value()

    return types.void(data, types.int64, into, types.int64), build


@_intrinsic
def _lowest(_: Any, bits: Any) -> Any:
    def build(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return builder.cttz(given[0], ir.Constant(ir.IntType(1), 1))

    return types.int64(types.int64), build


# -- functions ---------------------------------------------------------------------------------------------------------


def _made_of(instructions: Any) -> Callable[[_F], _F]:
    """Compiled code that calls the decorated function has these instructions in its place."""
    return lambda function: function if numba.config.DISABLE_JIT else instructions


def _bits_of(found: Mask) -> int:
    return int.from_bytes(np.packbits(found, bitorder="little").tobytes(), "little")


@_made_of(_compared("=="))
def equal(data: Bytes, at: int, byte: int) -> int:
    """Which bytes from a place on are this byte."""
    return _bits_of(data[at : at + VECTOR] == byte)


@_made_of(_compared("<"))
def below(data: Bytes, at: int, byte: int) -> int:
    """Which bytes from a place on are less than this byte."""
    return _bits_of(data[at : at + VECTOR] < byte)


@_made_of(_differing)
def differing(data: Bytes, at: int, other: Bytes, start: int) -> int:
    """Which bytes from a place on are not as those from the other place on."""
    return _bits_of(data[at : at + VECTOR] != other[start : start + VECTOR])


@_made_of(_copied)
def copied(data: Bytes, at: int, into: Bytes, place: int) -> None:
    """Copies the bytes from a place on to the other place."""
    into[place : place + VECTOR] = data[at : at + VECTOR]


@_made_of(_lowest)
def lowest(bits: int) -> int:
    """The number of the lowest bit that is set; one must be."""
    number = int(bits)
    return (number & -number).bit_length() - 1


@inlined
def signed(number: np.uint8) -> int:
    """The number as a signed one: NumPy would combine an unsigned and a signed number to a float."""
    return np.int64(number)  # type: ignore[return-value]


@inlined
def after_literal(data: Bytes, at: int, end: int, literals: Bytes, start: int, stop: int) -> int:
    """The offset after `literals[start:stop]`, or -1; VECTOR bytes must follow the last literal."""
    size = stop - start
    if at + size > end:
        return -1
    if size <= VECTOR and at + VECTOR <= len(data):
        others = differing(data, at, literals, start) & ((1 << size) - 1)
        return -1 if others else at + size
    for place in range(size):
        if data[at + place] != literals[start + place]:
            return -1
    return at + size
