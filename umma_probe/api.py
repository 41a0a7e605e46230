"""The Python API: one device, the same calls on the model and on a GPU.

    import umma_probe as up
    dev = up.device("model", arch="sm_100a")
    module = dev.compile(source)               # or dev.load_ptx(text)
    out = dev.array(np.zeros(128, np.float32))
    module["kernel"].launch(grid=1, block=128, args=[out, np.int32(3)])
    out.numpy()
    dev.tmem(cta=0).words                      # on the model: Tensor Memory as the CTA left it
"""  # fmt: skip

from __future__ import annotations

from typing import TYPE_CHECKING

from umma_probe.backends.target import open_target
from umma_probe.errors import ConfigError

if TYPE_CHECKING:
    from umma_probe.backends.base import Device


def device(target: str = "auto", *, arch: str = "", policy: str = "eager") -> Device:
    """Open a device: ``auto``, ``model``, ``cuda`` or ``cuda:N``.

    :param arch: to compile for; empty for the GPU's own, ``sm_100a`` on the model.
    :param policy: of the model: ``eager``, ``lazy`` or ``random:SEED``.
    :raises ConfigError: no such target, architecture or policy.
    :raises DeviceUnavailable: the target is not here.
    """
    for name, value in (("target", target), ("arch", arch), ("policy", policy)):
        if not isinstance(value, str):
            raise ConfigError(f"{name} is {value!r}, must be text", hint='device("model", arch="sm_100a")')
    return open_target(target, arch=arch, policy=policy)
