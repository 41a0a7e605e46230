"""What a driver's status means for a tensor-core kernel.

The driver reports a fault as one word, with no place. Each row says which class of error it is, what the word means,
and what is usually behind it in code that uses TMA, mbarriers and Tensor Memory. The causes are what the PTX
ISA's rules make faulty and what public bug reports show; none claims to be the only one. The words for a bad
address, a misaligned one and ``trap`` were seen on an H200 (``reports/gpu-path-h200.json``).
"""

from __future__ import annotations

from dataclasses import dataclass

from umma_probe.errors import ConfigError, DeviceError, DeviceTimeout, DeviceUnavailable, UmmaProbeError

_LOOK_CLOSER = "run the same case with --target model: it names the instruction, the thread and the address"


@dataclass(frozen=True)
class Meaning:
    """One status."""

    kind: type[UmmaProbeError]
    says: str
    hint: str = ""


MEANINGS: dict[str, Meaning] = {
    # ---- faults of a running kernel: the context is lost
    "CUDA_ERROR_ILLEGAL_ADDRESS": Meaning(
        DeviceError,
        "a load, store or asynchronous copy touched memory that is not there",
        "usual causes: an index past a buffer, or past the CTA's shared memory; a shared-memory address used as a "
        f"generic one; a TMA or mbarrier operand outside shared memory; a tensor map of a freed buffer. {_LOOK_CLOSER}",
    ),
    "CUDA_ERROR_MISALIGNED_ADDRESS": Meaning(
        DeviceError,
        "an address is not a multiple of what the access needs",
        "usual causes: vector loads (.v4.b32 needs 16 bytes); a TMA destination that is not a multiple of 128 bytes; "
        "an mbarrier that is not a multiple of 8; a tensor map that is not a multiple of 64; a Tensor Memory lane that "
        f"the shape does not allow. {_LOOK_CLOSER}",
    ),
    "CUDA_ERROR_ILLEGAL_INSTRUCTION": Meaning(
        DeviceError,
        "the SM refused an instruction, or an operand that the assembler cannot check",
        "usual causes: an instruction descriptor with an illegal shape or type code; a shared-memory descriptor "
        "without its constant bits; tcgen05.alloc of a column count that is not 32, 64, 128, 256 or 512. Decode the "
        f"words with `umma-probe idesc` and `umma-probe smem-desc`; {_LOOK_CLOSER}",
    ),
    "CUDA_ERROR_TENSOR_MEMORY_LEAK": Meaning(
        DeviceError,
        "a CTA exited while it still held Tensor Memory",
        "every tcgen05.alloc needs a tcgen05.dealloc with the same column count before its CTA exits, on every path",
    ),
    "CUDA_ERROR_LAUNCH_FAILED": Meaning(
        DeviceError,
        "an exception that the driver does not name; `trap` gives it too",
        "usual causes: trap, often behind an assertion of the kernel's own; a cluster peer that has exited while "
        f"others still write to its shared memory or arrive on its mbarriers. {_LOOK_CLOSER}",
    ),
    "CUDA_ERROR_INVALID_ADDRESS_SPACE": Meaning(
        DeviceError,
        "an instruction for one state space got an address of another",
        "usual cause: cvta is missing, so that a 32-bit shared address went into a generic access, or the reverse",
    ),
    "CUDA_ERROR_INVALID_PC": Meaning(DeviceError, "the program counter left the code", _LOOK_CLOSER),
    "CUDA_ERROR_HARDWARE_STACK_ERROR": Meaning(
        DeviceError, "a call stack overflowed or is damaged", "usual causes: deep recursion; a local array overrun"
    ),
    "CUDA_ERROR_ASSERT": Meaning(DeviceError, "a device-side assert failed", "its text is on stderr"),
    "CUDA_ERROR_LAUNCH_TIMEOUT": Meaning(
        DeviceTimeout, "the display watchdog ended the kernel", "run on a GPU that drives no display"
    ),
    "CUDA_ERROR_ECC_UNCORRECTABLE": Meaning(
        DeviceError, "an uncorrectable memory error: the GPU, not the kernel", "look at nvidia-smi -q -d ECC"
    ),
    "CUDA_ERROR_CONTAINED": Meaning(
        DeviceError, "a contained hardware error ended the process's work: the GPU, not the kernel", "see dmesg (Xid)"
    ),
    # ---- refused before anything ran
    "CUDA_ERROR_INVALID_VALUE": Meaning(ConfigError, "an argument is out of range"),
    "CUDA_ERROR_INVALID_CLUSTER_SIZE": Meaning(
        ConfigError,
        "this cluster cannot be scheduled with the kernel's shared memory and registers",
        "a smaller cluster, or less shared memory a CTA",
    ),
    "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES": Meaning(
        ConfigError,
        "the block needs more registers or shared memory than an SM has",
        "fewer threads, or __launch_bounds__ on the kernel",
    ),
    "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE": Meaning(ConfigError, "the grid does not fit on the GPU at once"),
    "CUDA_ERROR_NOT_FOUND": Meaning(ConfigError, "no such symbol in the module"),
    "CUDA_ERROR_INVALID_PTX": Meaning(ConfigError, "the driver's assembler refused the PTX"),
    "CUDA_ERROR_INVALID_IMAGE": Meaning(ConfigError, "the image is neither a cubin nor PTX"),
    # ---- the environment
    "CUDA_ERROR_NO_BINARY_FOR_GPU": Meaning(
        DeviceUnavailable,
        "the cubin is for another architecture than this GPU's",
        "compile for the GPU's own: an a-target such as sm_100a runs on that one architecture only",
    ),
    "CUDA_ERROR_UNSUPPORTED_PTX_VERSION": Meaning(
        DeviceUnavailable,
        "the PTX is of a later ISA than the driver's assembler knows",
        "compile to a cubin, which any driver of the same CUDA major version loads; or update the driver",
    ),
    "CUDA_ERROR_OUT_OF_MEMORY": Meaning(
        DeviceUnavailable, "the GPU has not enough free memory", "another process may hold it: nvidia-smi"
    ),
    "CUDA_ERROR_NO_DEVICE": Meaning(
        DeviceUnavailable,
        "the driver is there, but no GPU is visible",
        "see nvidia-smi; CUDA_VISIBLE_DEVICES may hide it; a container needs --gpus all",
    ),
    "CUDA_ERROR_INVALID_DEVICE": Meaning(DeviceUnavailable, "there is no GPU of that number", "umma-probe doctor"),
    "CUDA_ERROR_DEVICE_UNAVAILABLE": Meaning(
        DeviceUnavailable, "the GPU is in use exclusively by another process", "nvidia-smi shows which"
    ),
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": Meaning(
        DeviceUnavailable,
        "libcuda and the kernel module are of different versions",
        "reboot or reload the kernel module after a driver update",
    ),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": Meaning(
        DeviceUnavailable,
        "the forward-compatibility libcuda in use does not support this GPU",
        "remove the cuda-compat directory from LD_LIBRARY_PATH, or update the driver",
    ),
    "CUDA_ERROR_SYSTEM_NOT_READY": Meaning(
        DeviceUnavailable, "the system is not ready for CUDA", "on an NVSwitch host: is nvidia-fabricmanager running?"
    ),
    "CUDA_ERROR_UNKNOWN": Meaning(
        DeviceUnavailable, "the driver failed for a reason it does not know", "see dmesg; nvidia-smi; reboot"
    ),
}

_FALLBACK = Meaning(DeviceError, "the driver reports an error")


def explained(status: str, function: str, doing: str = "") -> UmmaProbeError:
    """The error for a bad status.

    :param status: its name, ``CUDA_ERROR_...``.
    :param function: the driver's function that answered it.
    :param doing: what was asked, in words, for instance the launch.
    """
    meaning = MEANINGS.get(status, _FALLBACK)
    subject = f"{doing}: " if doing else ""
    return meaning.kind(f"{subject}{status} from {function}: {meaning.says}", hint=meaning.hint)
