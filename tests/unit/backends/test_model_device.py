"""The Python API on the model: buffers, arguments, launches, Tensor Memory, what is refused."""

import numpy as np
import pytest

import umma_probe as up
from umma_probe.backends.target import open_target
from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, DeviceUnavailable

PTX = """
.version 8.7
.target sm_100a
.address_size 64
.visible .entry scale(.param .u64 out, .param .u32 factor, .param .align 4 .b8 pair[8])
{
  .reg .b32 %r<6>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  ld.param.u32 %r1, [factor];
  ld.param.u32 %r2, [pair + 4];
  mov.u32 %r3, %tid.x;
  mad.lo.u32 %r4, %r3, %r1, %r2;
  mul.wide.u32 %rd2, %r3, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r4;
  ret;
}
.visible .entry spin()
{
  .reg .b32 %r<2>;
  mov.u32 %r1, 0;
again:
  add.u32 %r1, %r1, 1;
  bra again;
}
"""
PAIR = np.array([7, 100], np.uint32).tobytes()


@pytest.fixture
def device() -> object:
    return up.device("model")


def test_launch_with_a_buffer_a_scalar_and_a_struct(device) -> None:
    out = device.array(np.zeros(64, np.uint32))
    device.load_ptx(PTX)["scale"].launch(grid=1, block=64, args=[out, np.uint32(3), PAIR])
    assert out.numpy().tolist() == [3 * i + 100 for i in range(64)]


def test_buffers_keep_shape_and_type(device) -> None:
    values = np.arange(24, dtype=np.float16).reshape(2, 3, 4)
    buffer = device.array(values[:, ::-1])
    assert buffer.numpy().dtype == np.float16
    assert (buffer.numpy() == values[:, ::-1]).all()
    buffer.copy_from(values)
    assert (buffer.numpy() == values).all()
    with pytest.raises(ConfigError, match="has 2 bytes, must have 48"):
        buffer.copy_from(np.zeros(1, np.float16))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([np.uint32(3), PAIR], "2 arguments, must be 3"),
        ([None, np.uint64(3), PAIR], "has 8 bytes, must be 4"),
        ([None, 3, PAIR], "argument 1 of kernel 'scale' is of type int"),
        ([None, np.zeros(1, np.uint32), PAIR], "argument 1 of kernel 'scale' is of type ndarray"),
        ([None, np.uint32(3), PAIR + b"0"], "has 9 bytes, must be 8"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(device, arguments: list[object], message: str) -> None:
    out = device.array(np.zeros(64, np.uint32))
    given = [out if argument is None else argument for argument in arguments]
    with pytest.raises(ConfigError, match=message):
        device.load_ptx(PTX)["scale"].launch(grid=1, block=64, args=given)
    assert not out.numpy().any(), "nothing ran"


def test_unknown_kernel_names_the_nearest(device) -> None:
    with pytest.raises(ConfigError, match="did you mean scale"):
        device.load_ptx(PTX)["scales"]


def test_a_kernel_that_is_slow_is_not_called_stuck(device) -> None:
    head = ".version 9.0\n.target sm_100a\n.address_size 64\n.visible .entry "
    body = ".reg .b32 %r<3>; .reg .pred %p; .reg .b64 %a; ld.param.u64 %a, [out]; mov.u32 %r0, 0; {}"
    stores = "L: st.global.u32 [%a], %r0; add.u32 %r0, %r0, 1; setp.ne.u32 %p, %r0, 0; @%p bra L; ret; }"
    counts = "L: add.u32 %r0, %r0, 1; mul.lo.u32 %r1, %r0, 3; setp.ne.u32 %p, %r0, 0; @%p bra L; ret; }"
    out = device.array(np.zeros(1, np.uint32))
    for loop, message in ((stores, "still progressing: it is slow"), (counts, r"nothing was stored.* last \d+ turns")):
        kernel = device.load_ptx(f"{head}k(.param .u64 out) {{ {body.format(loop)}")["k"]
        with pytest.raises(DeviceTimeout, match=message) as caught:
            kernel.launch(grid=1, block=32, args=[out], timeout=0.3)
        assert "--timeout" in caught.value.hint


def test_a_kernel_that_spins_ends_at_the_timeout(device) -> None:
    with pytest.raises(DeviceTimeout, match=r"not finished after 0\.2 s"):
        device.load_ptx(PTX)["spin"].launch(grid=1, block=32, timeout=0.2)


def test_tensor_memory_after_a_launch(device) -> None:
    with pytest.raises(ConfigError, match="nothing was launched"):
        device.tmem()
    out = device.array(np.zeros(32, np.uint32))
    device.load_ptx(PTX)["scale"].launch(grid=1, block=32, args=[out, np.uint32(1), PAIR])
    snapshot = device.tmem(cta=0)
    assert (snapshot.lanes, snapshot.columns) == (128, 512)
    assert not snapshot.written.any()
    with pytest.raises(ConfigError, match="cta is 5"):
        device.tmem(cta=5)


@pytest.mark.parametrize("grid", [0, (1, 1, 1, 1), ()])
def test_dimensions_are_checked(device, grid: object) -> None:
    with pytest.raises(ConfigError, match="one to three integers"):
        device.load_ptx(PTX)["spin"].launch(grid=grid, block=32)


def test_identity_names_the_target(device) -> None:
    assert (device.identity.kind, device.identity.arch) == ("model", "sm_100a")
    assert up.device("model", arch="sm_103a").identity.arch == "sm_103a"


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"target": "gpu"}, ConfigError, "must be auto, model, cuda or cuda:N"),
        ({"target": "model", "arch": "sm_99a"}, ConfigError, "unknown architecture"),
        ({"target": "model", "policy": "hasty"}, ConfigError, "must be eager, lazy or random:SEED"),
        ({"target": "model", "arch": "sm_90a", "needs": ("tmem",)}, DeviceUnavailable, "no Tensor Memory"),
    ],
)
def test_targets_that_cannot_be(arguments: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        open_target(**arguments)


def test_printf_goes_to_stderr_at_once_and_into_the_outcome(device, capsys) -> None:
    source = """
    extern "C" __global__ void k(int fail) {
        if (threadIdx.x == 3) { printf("lane %d, %.1f\\n", threadIdx.x, 2.5f); if (fail) __trap(); }
    }"""
    kernel = device.compile(source)["k"]
    assert kernel.launch(grid=1, block=32, args=[np.int32(0)]).printed == "lane 3, 2.5\n"
    with pytest.raises(DeviceError, match="trap"):
        kernel.launch(grid=1, block=32, args=[np.int32(1)])
    out, err = capsys.readouterr()
    assert (out, err) == ("", 2 * "lane 3, 2.5\n")


@pytest.mark.parametrize(
    ("changed", "says"),
    [
        ({"grid": 1.5}, "grid is 1.5, must be one to three integers"),
        ({"grid": (1.7, 1)}, "grid is .1.7, 1., must be one to three integers"),
        ({"grid": "a"}, "grid is 'a', must be one to three integers"),
        ({"grid": ()}, "must be one to three integers"),
        ({"grid": (1, 70000)}, "grid.y is 70000, must be at most 65535"),
        ({"block": (1, 1, 65)}, "block.z is 65, must be at most 64"),
        ({"dynamic_smem": -4}, "dynamic_smem is -4 bytes, must be at least 0"),
        ({"timeout": -1}, "timeout is -1 s, must be above 0"),
    ],
)
def test_launches_of_a_wrong_shape(device, changed: dict[str, object], says: str) -> None:
    out = device.array(np.zeros(64, np.uint32))
    with pytest.raises(ConfigError, match=says):
        device.load_ptx(PTX)["scale"].launch(**{"grid": 1, "block": 64, "args": [out, np.uint32(3), PAIR], **changed})


def test_sizes_may_be_numpy_integers(device) -> None:
    out = device.array(np.zeros(64, np.uint32))
    device.load_ptx(PTX)["scale"].launch(grid=np.int64(1), block=[np.int32(64)], args=[out, np.uint32(1), PAIR])
    assert out.numpy()[63] == 163


def test_a_buffer_of_another_device_is_refused(device) -> None:
    foreign = up.device("model").array(np.zeros(64, np.uint32))
    with pytest.raises(ConfigError, match="argument 0 of kernel 'scale' is of type buffer of another device"):
        device.load_ptx(PTX)["scale"].launch(grid=1, block=64, args=[foreign, np.uint32(3), PAIR])


TILED = {"dtype": "f32", "global_dim": [64], "global_strides": [], "box_dim": [32]}


def test_a_tensor_map_takes_the_words_of_a_launch_case(device) -> None:
    buffer = device.array(np.zeros(64, np.float32))
    assert device.tensor_map(buffer, rank=1, **TILED).tobytes() == device.tensor_map(buffer, **TILED).tobytes()
    for fields, says in (
        ({**TILED, "boxdim": [1]}, "unknown word 'boxdim'; did you mean box_dim"),
        ({"dtype": "f32"}, "global_dim, global_strides, box_dim missing"),
        ({**TILED, "rank": 2}, "rank is 2, must be 1"),
    ):
        with pytest.raises(ConfigError, match=says):
            device.tensor_map(buffer, **fields)


@pytest.mark.parametrize("values", [None, "text", [[1], [2, 3]], [None], object()])
def test_what_is_no_array_of_numbers_is_refused(device, values: object) -> None:
    with pytest.raises(ConfigError, match="array of numbers"):
        device.array(values)


@pytest.mark.parametrize("method", ["compile", "load_ptx"])
def test_a_source_that_is_no_text_is_refused(device, method: str) -> None:
    with pytest.raises(ConfigError, match=f"{method}: the source is of type NoneType, must be text"):
        getattr(device, method)(None)


def test_the_package_shows_and_checks_its_api() -> None:
    assert "device" in dir(up)
    for words in ({"target": None}, {"target": "model", "arch": None}, {"target": "model", "policy": 3}):
        with pytest.raises(ConfigError, match="must be text"):
            up.device(**words)
