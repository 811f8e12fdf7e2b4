"""Steps that threads take together: warp collectives under an exact mask, exchanges at barriers."""

from random_kernels.expressions import condition, expression
from random_kernels.scope import SHUFFLED, Scope
from random_kernels.tree import Node


def warp_step(scope: Scope) -> Node:
    """Lanes of the known mask learn from each other."""
    draw, mask = scope.random, scope.mask
    name, kind = draw.choice(scope.variables)
    if draw.random() < 0.45:
        return Node(f"{name} = {kind}({_shuffled(scope)});")
    word = f"u32({expression(scope, 'u32', 2)})"
    texts = [
        f"h = stir(h, __ballot_sync({mask}, {condition(scope)}));",
        f"h = stir(h, u32(__any_sync({mask}, {condition(scope)})));",
        f"h = stir(h, u32(__all_sync({mask}, {condition(scope)})));",
        f"h = stir(h, __match_any_sync({mask}, {word} & 3u));",
        f"h = stir(h, __match_any_sync({mask}, {expression(scope, 'u64', 1)} & 5ull));",
        f"{{ int same; h = stir(h, __match_all_sync({mask}, {word} & 1u, &same));"
        " h = stir(h, u32(same)); }",
        f"h = stir(h, sum_of({mask}, {word}));",
        f"h = stir(h, parity_of({mask}, {word}));",
        f"h = stir(h, most_of({mask}, {word}));",
        f"h = stir(h, u32(least_of({mask}, i32({word}))));",
    ]
    if scope.shared:
        array = draw.choice(scope.shared)
        texts += 3 * [
            f"__syncwarp({mask}); {array.name}[t] = {expression(scope, array.type, 2)};"
            f" __syncwarp({mask}); h = stir(h, bits({array.name}[(t & ~31u) +"
            f" lane_of({mask}, {word})])); __syncwarp({mask});"
        ]
    return Node(draw.choice(texts))


def _shuffled(scope: Scope) -> str:
    draw, mask = scope.random, scope.mask
    kind = draw.choice(SHUFFLED)
    value = expression(scope, kind, 2)
    bits = "bits({})" if kind in {"f32", "f64"} else "{}"
    if scope.whole_warps and draw.random() < 0.6:
        way = draw.choice(("", "_up", "_down", "_xor"))
        width = draw.choice((2, 4, 8, 16, 32))
        by = draw.choice((str(draw.randrange(32)), f"({expression(scope, 'u32', 1)} & 31u)"))
        return bits.format(f"__shfl{way}_sync({mask}, {value}, {by}, {width})")
    return bits.format(
        f"__shfl_sync({mask}, {value}, lane_of({mask}, {expression(scope, 'u32', 1)}))"
    )


def barrier_step(scope: Scope) -> Node:
    """All threads of the block exchange through shared memory, or vote."""
    draw = scope.random
    array = draw.choice(scope.shared)
    name, kind = array.name, array.type
    value = expression(scope, kind, 2)
    at = f"({expression(scope, 'u32', 1)} % {scope.live}u)"
    lines: list[str]
    match draw.randrange(6):
        case 0:
            lines = [
                f"{name}[(t + {draw.randrange(scope.live)}u) % {scope.live}u] = {value};",
                "__syncthreads();",
                f"h = stir(h, bits({name}[{at}]));",
                f"h = stir(h, bits({name}[t ^ (t & 1)]));",
            ]
        case 1:
            lines = [
                f"for (u32 i = t; i < 32; i += {scope.live}u) tally[i] = 0;",
                "__syncthreads();",
                f"atomicAdd(&tally[{expression(scope, 'u32', 2)} & 31], t * 3u + 1u);",
                f"if ({condition(scope)}) atomicXor(&tally[{at} & 31], 0u);",
                "__syncthreads();",
                f"h = stir(h, tally[{at} & 31]);",
            ]
        case 2:
            one = draw.randrange(scope.live)
            lines = [
                f"if (t == {one}u) {name}[{one}] = {value};",
                "__syncthreads();",
                f"h = stir(h, bits({name}[{one}]));",
            ]
        case 3:
            vote = draw.choice(("count", "or", "and"))
            lines = [f"h = stir(h, u32(__syncthreads_{vote}({condition(scope)})));"]
        case 4:
            half = 1 << ((scope.live - 1).bit_length() - 1)
            lines = [
                f"{name}[t] = {value};",
                "__syncthreads();",
                f"for (u32 s = {half}u; s; s >>= 1) {{",
                f"  if (t < s && t + s < {scope.live}u)"
                f" {name}[t] = {kind}({name}[t] + {kind}(3) * {name}[t + s]);",
                "  __syncthreads();",
                "}",
                f"h = stir(h, bits({name}[0]));",
            ]
            if kind not in {"u8", "u16", "u32", "u64", "f32", "f64"}:
                lines[3] = (
                    f"  if (t < s && t + s < {scope.live}u)"
                    f" {name}[t] = add({name}[t], mul({name}[t + s], {kind}(3)));"
                )
        case _:
            lines = [
                f"dynamic[t] = {expression(scope, 'u32', 2)};",
                "__syncthreads();",
                f"h = stir(h, dynamic[{at}]);",
                f"h = stir(h, reinterpret_cast<const u8*>(dynamic)[{at}]);",
            ]
    return Node("{", [Node(line) for line in (*lines, "__syncthreads();")], "}")
