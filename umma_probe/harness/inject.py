"""``--inject NAME[:ARGS]``: plants one fault in a probe's operands, descriptors or code path.

A fault turns the recipe that the kernel runs into one that is wrong in one place; what is expected of the run stays.
Nothing of this reaches the diagnosis, which sees the clean recipe and what the kernel left.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from umma_probe.errors import ConfigError, unknown_name
from umma_probe.harness.gemm.recipe import UNPACKED_TILE, Recipe, Staged, Storing, reading_of
from umma_probe.layouts.tmem_ldst import parse
from umma_probe.registry import Registry
from umma_probe.spec.descriptors import Swizzle
from umma_probe.spec.idesc import decode_idesc, encode_idesc
from umma_probe.spec.machine import TMEM_COLUMNS, TMEM_LANES

if TYPE_CHECKING:
    from collections.abc import Callable

    from umma_probe.spec.idesc import IdescFields


@dataclass(frozen=True)
class Fault:
    """One kind of fault; ``args`` says how its arguments are written."""

    name: str
    args: str
    help: str
    cause: str
    """Name of the cause that the diagnosis must find."""
    apply: Callable[[Recipe, str], Recipe]

    @property
    def usage(self) -> str:
        """``name:ARGS``."""
        return f"{self.name}:{self.args}" if self.args else self.name


FAULTS: Registry[Fault] = Registry("fault")
_UNIT = 16
"""Bytes that a descriptor's addresses and offsets count in."""
_FIELD_BYTES = 1 << 18
"""So many bytes can an address or offset of a descriptor say: 14 bits of units."""
_PATTERN_BYTES = 1024
"""The widest swizzle pattern repeats after so many bytes."""
_COLUMN_FIELD = 0xFFFF
"""Greatest column that an address of Tensor Memory can say."""
_MOST_SHAPE = 512
_NARROWEST_N = 8
"""The least N of an MMA that is not ``.ws``."""


def inject(recipe: Recipe, text: str | None) -> Recipe:
    """The recipe with a fault planted; the same recipe without ``text``.

    :param text: ``NAME`` or ``NAME:ARGS``.
    :raises ConfigError: no such fault, or arguments that it does not take.
    """
    if not text:
        return recipe
    name, _, args = text.partition(":")
    fault = FAULTS.get(name)
    if fault is None:
        raise ConfigError(unknown_name("fault", name, FAULTS),
                          hint="umma-probe list --faults shows them with their arguments")  # fmt: skip
    try:
        planted = fault.apply(recipe, args)
    except (ValueError, ConfigError) as error:
        why = error.message if isinstance(error, ConfigError) else error
        raise ConfigError(f"inject is '{text}', must be {fault.usage} ({why})", hint=fault.help) from None
    if planted == recipe:
        raise ConfigError(f"inject is '{text}', which changes nothing in this run")
    return planted


def _fault(
    name: str, args: str, help_: str, cause: str = ""
) -> Callable[[Callable[[Recipe, str], Recipe]], Callable[[Recipe, str], Recipe]]:
    def register(apply: Callable[[Recipe, str], Recipe]) -> Callable[[Recipe, str], Recipe]:
        FAULTS.add(name, Fault(name, args, help_, cause or name, apply))
        return apply

    return register


def parse_ranges(text: str) -> tuple[tuple[int, int], ...]:
    """``512-575,768-831`` as half-open ranges.

    :raises ValueError: not of that form.
    """
    ranges = []
    for part in text.split(","):
        low, _, high = part.partition("-")
        if not (low.isdecimal() and (high or low).isdecimal() and int(low) <= int(high or low)):
            raise ValueError(f"'{part}' is no range, such as 3 or 8-15")
        first, last = int(low), int(high or low)
        ranges.append((first, last + 1))
    return tuple(ranges)


def _number(text: str, most: int, *, least: int = 0, step: int = 1) -> int:
    try:
        value = int(text, 0)
    except ValueError:
        raise ValueError(f"'{text}' is no number") from None
    if not least <= value <= most or value % step:
        raise ValueError(f"{value} is not {f'a multiple of {step} ' if step > 1 else ''}from {least} to {most}")
    return value


def _only_operand(recipe: Recipe, args: str) -> str:
    name, rest = _operand_of(recipe, args)
    if rest:
        raise ValueError(f"'{rest}' is no operand")
    return name


def _operand_of(recipe: Recipe, args: str) -> tuple[str, str]:
    """The operand's name (b unless said) and the other arguments."""
    name, _, rest = args.partition(",")
    if name in ("a", "b"):
        if name == "a" and recipe.a_in_tmem:
            raise ValueError("A is in Tensor Memory")
        return name, rest
    return "b", args


# ------------------------------------------------------------------------------------------------------------ operands


@_fault("operand-hole", "[a,]RANGES", "Leaves elements out (zero); [row][k] order of each K tile.")
def _operand_hole(recipe: Recipe, args: str) -> Recipe:
    name, ranges = _operand_of(recipe, args)
    holes, staged = parse_ranges(ranges), recipe.operand(name)
    size = staged.rows * recipe.tile_k
    if max(high for _, high in holes) > size:
        raise ValueError(f"{name.upper()} has elements 0-{size - 1} in a K tile")
    return recipe.with_operand(name, replace(staged, holes=holes))


@_fault("lbo-sbo-swap", "[a|b]", "Tells the MMAs LBO for SBO and SBO for LBO.")
def _lbo_sbo_swap(recipe: Recipe, args: str) -> Recipe:
    name = _only_operand(recipe, args)
    read = recipe.operand(name).read
    return recipe.with_read(name, replace(read, lbo=read.sbo, sbo=read.lbo))


@_fault("wrong-stride", "[a|b,]lbo|sbo,BYTES", "Tells the MMAs another leading or stride byte offset.")
def _wrong_stride(recipe: Recipe, args: str) -> Recipe:
    name, rest = _operand_of(recipe, args)
    field, _, size = rest.partition(",")
    if field not in ("lbo", "sbo"):
        raise ValueError("lbo or sbo, then bytes")
    stride = _number(size, _FIELD_BYTES - _UNIT, step=_UNIT)
    return recipe.with_read(name, recipe.operand(name).read.changed(**{field: stride}))


@_fault("wrong-swizzle", "[a|b,]MODE", "Tells the MMAs another swizzle mode than the operand was staged with.")
def _wrong_swizzle(recipe: Recipe, args: str) -> Recipe:
    name, mode = _operand_of(recipe, args)
    return recipe.with_read(name, replace(recipe.operand(name).read, swizzle=Swizzle.from_text(mode)))


@_fault("wrong-phase", "[a|b,]BYTES", "Stages with the swizzle pattern displaced, as from an unaligned base.")
def _wrong_phase(recipe: Recipe, args: str) -> Recipe:
    name, size = _operand_of(recipe, args)
    staged, phase = recipe.operand(name), _number(size, _PATTERN_BYTES - _UNIT, step=_UNIT)
    return recipe.with_operand(name, replace(staged, placed=replace(staged.placed, phase=phase)))


@_fault("wrong-start", "[a|b,]BYTES", "Tells the MMAs a start address that is this much further.")
def _wrong_start(recipe: Recipe, args: str) -> Recipe:
    name, size = _operand_of(recipe, args)
    read = recipe.operand(name).read
    further = _number(size, _FIELD_BYTES - _UNIT - read.smem, least=-read.smem, step=_UNIT)
    return recipe.with_read(name, replace(read, smem=read.smem + further))


@_fault("wrong-major", "[a|b]", "Tells the MMAs the other major-ness than the operand was staged with.")
def _wrong_major(recipe: Recipe, args: str) -> Recipe:
    name = _only_operand(recipe, args)
    fields = decode_idesc(recipe.kind, recipe.idesc)
    major = fields.a_major if name == "a" else fields.b_major
    return replace(recipe, idesc=reencode(fields, **{f"{name}_major": "mn" if major == "k" else "k"}))


@_fault("k-panel-stride", "[a|b,]BYTES", "Steps this far from one K tile (or row width of K) to the next.")
def _k_panel_stride(recipe: Recipe, args: str) -> Recipe:
    name, size = _operand_of(recipe, args)
    if recipe.tiles == 1:
        raise ValueError("there is one K tile only")
    read, bytes_ = recipe.operand(name).read, _number(size, _FIELD_BYTES - _UNIT, step=_UNIT)
    changed = replace(read, jump=bytes_) if read.run < recipe.tiles else replace(read, step=bytes_)
    return recipe.with_read(name, changed)


@_fault("unit-forgotten", "[a|b,]lbo|sbo|start", "Puts bytes where the descriptor counts 16 bytes.")
def _unit_forgotten(recipe: Recipe, args: str) -> Recipe:
    name, field = _operand_of(recipe, args)
    if field == "start":
        return replace(recipe, start_unit_forgotten=True)
    if field not in ("lbo", "sbo"):
        raise ValueError("one of lbo, sbo, start")
    read = recipe.operand(name).read
    return recipe.with_read(name, read.changed(**{field: getattr(read, field) * 16 % (1 << 18)}))


@_fault("operand-unpacked", "[unpack::16b]", "Stores A into Tensor Memory with one element a column, or by that store.")
def _operand_unpacked(recipe: Recipe, args: str) -> Recipe:
    if args not in ("", Storing.UNPACK_16B.value) or not recipe.a_in_tmem:
        raise ValueError("unpack::16b or nothing, and A in Tensor Memory")
    if not args:
        return replace(recipe, a_storing=Storing.ONE_A_COLUMN)
    last = TMEM_COLUMNS - UNPACKED_TILE * recipe.tiles
    if recipe.a_column > last:
        raise ValueError(f"A at column {last} at most: it takes twice as many columns")
    return replace(recipe, a_storing=Storing.UNPACK_16B)


# -------------------------------------------------------------------------------------------------- instruction and D


def reencode(fields: IdescFields, **changed: object) -> int:
    """The descriptor word with other fields."""
    values = {name: getattr(fields, name) for name in ("a_type", "b_type", "d_type", "m", "n", "a_major", "b_major",
                                                       "negate_a", "negate_b", "saturate")}  # fmt: skip
    return encode_idesc(fields.kind, **{**values, **changed}, force=True)


_IDESC_FIELDS = ("m", "n", "a_type", "b_type", "d_type", "negate_a", "negate_b", "a_major", "b_major")


@_fault("wrong-idesc", "FIELD=VALUE", "One field of the instruction descriptor: m, n, a-type, negate-a, a-major ...")
def _wrong_idesc(recipe: Recipe, args: str) -> Recipe:
    field, _, value = args.partition("=")
    field = field.replace("-", "_")
    if field not in _IDESC_FIELDS:
        raise ValueError(f"one of {', '.join(_IDESC_FIELDS)}")
    fields = decode_idesc(recipe.kind, recipe.idesc)
    parsed: object = value
    if field in ("m", "n"):
        parsed = _number(value, _MOST_SHAPE)
    elif "negate" in field:
        parsed = bool(_number(value or "1", 1))
    word = reencode(fields, **{field: parsed})
    if field in ("m", "n") and getattr(decode_idesc(recipe.kind, word), field) != parsed:
        raise ValueError(f"{field} of {value} has no code in the descriptor")
    return replace(recipe, idesc=word)


@_fault("layout-mistaken", "", "Reads row m in lane m, whatever the layout.", "layout-mistaken")
def _layout_mistaken(recipe: Recipe, args: str) -> Recipe:
    if args:
        raise ValueError("no arguments")
    return replace(recipe, read_as_layout_d=True)


@_fault("stale-accumulator", "", "The first MMA accumulates into what it finds.")
def _stale_accumulator(recipe: Recipe, args: str) -> Recipe:
    if args:
        raise ValueError("no arguments")
    return replace(recipe, accumulate=True)


@_fault("shared-columns", "STEP", "Sub-tiles of D begin this many columns apart, and overlap.")
def _shared_columns(recipe: Recipe, args: str) -> Recipe:
    if recipe.subs == 1:
        raise ValueError("there is one sub-tile only")
    return replace(recipe, d_step=_number(args, TMEM_COLUMNS - 1))


@_fault("tmem-overlap", "COLUMN", "A in Tensor Memory begins at this column, inside of D.")
def _tmem_overlap(recipe: Recipe, args: str) -> Recipe:
    if not recipe.a_in_tmem:
        raise ValueError("A in Tensor Memory")
    return replace(recipe, a_column=_number(args, TMEM_COLUMNS - 1))


@_fault("d-column", "COLUMN", "D begins at another column; beyond 512 - N it leaves Tensor Memory.")
def _d_column(recipe: Recipe, args: str) -> Recipe:
    return replace(recipe, d_column=_number(args, _COLUMN_FIELD))


@_fault("lane-mask", "LANES", "The MMA leaves these lanes alone (disable-output-lane).")
def _lane_mask(recipe: Recipe, args: str) -> Recipe:
    ranges = parse_ranges(args)
    if recipe.ws or max(high for _, high in ranges) > TMEM_LANES:
        raise ValueError(f"no .ws, and lanes 0-{TMEM_LANES - 1}")
    return replace(recipe, disabled_lanes=ranges)


@_fault("sub-tile-skipped", "SUB-TILES", "No MMA makes these N sub-tiles of D.")
def _sub_tile_skipped(recipe: Recipe, args: str) -> Recipe:
    skipped = {sub for low, high in parse_ranges(args) for sub in range(low, high)}
    if not skipped < set(range(recipe.subs)):
        raise ValueError(f"some of the sub-tiles 0-{recipe.subs - 1}, not all")
    return replace(recipe, skipped_subs=tuple(sorted(skipped)))


@_fault("not-written", "COLUMNS", "Makes D by MMAs of 8 columns, without the MMAs of these: no cause names that.")
def _not_written(recipe: Recipe, args: str) -> Recipe:
    ranges, staged = parse_ranges(args), recipe.b
    if recipe.ws or staged.placed.major != "k":
        raise ValueError("no .ws, and B K-major")
    subs = recipe.total_n // _NARROWEST_N
    skipped = {sub for low, high in ranges for sub in range(low // _NARROWEST_N, high // _NARROWEST_N)}
    if any(edge % _NARROWEST_N for edges in ranges for edge in edges) or not skipped < set(range(subs)):
        raise ValueError(f"whole eights of D's {recipe.total_n} columns, such as 8-15, and not all")
    fields = decode_idesc(recipe.kind, recipe.idesc)
    narrow = replace(recipe, n=_NARROWEST_N, d_step=_NARROWEST_N, subs=subs, idesc=reencode(fields, n=_NARROWEST_N),
                     skipped_subs=tuple(sorted(skipped)))  # fmt: skip
    return narrow.with_read("b", replace(staged.read, sub_step=reading_of(staged.placed, 0, _NARROWEST_N).sub_step))


@_fault("mma-skipped", "[TILES]", "Leaves out the last K tiles, or all of them.")
def _mma_skipped(recipe: Recipe, args: str) -> Recipe:
    skipped = _number(args, recipe.tiles, least=1) if args else recipe.tiles
    return replace(recipe, issued_tiles=recipe.tiles - skipped)


# --------------------------------------------------------------------------------------------------- readback and order


@_fault(
    "readback",
    "[0|1|2,]shape=SHAPE.xN|column=C|lane=L|pack=on|off",
    "Reads other cells than the reader believes; readback 2, of a D of 16 bits, has .pack::16b.",
)
def _readback(recipe: Recipe, args: str) -> Recipe:
    first, _, rest = args.partition(",")
    index, what = (int(first), rest) if first.isdecimal() else (1, args)
    if index >= len(recipe.readings):
        raise ValueError(f"a readback of 0-{len(recipe.readings) - 1}")
    reading = recipe.readings[index]
    field, _, value = what.partition("=")
    match field:
        case "column":
            return recipe.with_reading(index, replace(reading, column=_number(value, TMEM_COLUMNS - 1)))
        case "lane":
            if reading.readback.halves == 1:
                raise ValueError(f"readback {index} takes 32 lanes at once, and another readback takes 16")
            return recipe.with_reading(index, replace(reading, lane_step=_number(value, TMEM_LANES - 1)))
        case "pack" if value in ("on", "off"):
            mistaken = reading.readback.spec.pack != (value == "on")
            return recipe.with_reading(index, replace(reading, pack_mistaken=mistaken))
        case "shape":
            other = replace(reading.readback, spec=replace(parse(value), pack=reading.readback.spec.pack))
            if other.dump_shape != reading.readback.dump_shape:
                raise ValueError(f"a shape with {reading.readback.spec.registers} registers")
            return recipe.with_reading(index, replace(reading, readback=other))
    raise ValueError("one of shape, column, lane, pack=on, pack=off")


_STEPS = {"commit-wait": "COMMIT_WAIT", "proxy-fence": "PROXY_FENCE", "wait-st": "WAIT_ST", "wait-ld": "WAIT_LD"}


@_fault(
    "race",
    "|".join(_STEPS),
    "Leaves out a step that orders accesses; on the model --policy lazy shows what eager hides.",
)
def _race(recipe: Recipe, args: str) -> Recipe:
    if args not in _STEPS:
        raise ValueError(f"one of {', '.join(_STEPS)}")
    return replace(recipe, left_out=_STEPS[args])


__all__ = ["FAULTS", "Fault", "Staged", "inject", "parse_ranges", "reading_of", "reencode"]
